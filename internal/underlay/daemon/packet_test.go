package daemon

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// superPacket returns what a TUN device gives for a TCP or UDP flow: headers
// whose checksum holds the pseudo-header's sum only, and the payload of many
// segments.
func superPacket(version, gso byte, size, payload int) *packet {
	ipLength, protocol, transportLength, checksumAt := 20, byte(unix.IPPROTO_TCP), 32, 16
	if version == 6 {
		ipLength = 40
	}
	if gso == gsoUDP {
		protocol, transportLength, checksumAt = unix.IPPROTO_UDP, 8, 6
	}
	n := vnetLen + ipLength + transportLength + payload
	p := &packet{buffer: make([]byte, maxRead)}
	head, ip := p.buffer[:vnetLen], p.buffer[vnetLen:n]
	head[0], head[1] = needsChecksum, gso
	binary.NativeEndian.PutUint16(head[2:], uint16(ipLength+transportLength))
	binary.NativeEndian.PutUint16(head[4:], uint16(size))
	binary.NativeEndian.PutUint16(head[6:], uint16(ipLength))
	binary.NativeEndian.PutUint16(head[8:], uint16(checksumAt))
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(ip)
	if version == 4 {
		ip[0], ip[9] = 0x45, protocol
		binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)))
	} else {
		ip[0], ip[6] = 0x60, protocol
		binary.BigEndian.PutUint16(ip[4:], uint16(len(ip)-40))
	}
	transport := ip[ipLength:]
	if gso != gsoUDP {
		transport[12], transport[13] = 8<<4, 0x19 // FIN, PSH and ACK
	}
	if !p.parse(n) {
		panic("the test's packet is wrong")
	}
	return p
}

// naive sums 16-bit words as RFC 1071 describes it. Data with a right checksum
// sums to 0xffff.
func naive(parts ...[]byte) uint16 {
	var total uint32
	data := slices.Concat(parts...)
	for i, b := range data {
		if i%2 == 0 {
			total += uint32(b) << 8
		} else {
			total += uint32(b)
		}
		total = total&0xffff + total>>16
	}
	return uint16(total)
}

// checkWire checks the packet that goes onto the wire for one segment.
func checkWire(t *testing.T, wire []byte, gso byte) (payload []byte) {
	t.Helper()
	if !bytes.Equal(wire[:vnetLen], make([]byte, vnetLen)) {
		t.Fatalf("virtio header % x of a single packet", wire[:vnetLen])
	}
	ip := wire[vnetLen:]
	ipLength, addresses := 20, ip[12:20]
	if ip[0]>>4 == 6 {
		ipLength, addresses = 40, ip[8:40]
		if int(binary.BigEndian.Uint16(ip[4:])) != len(ip)-40 {
			t.Fatal("wrong payload length")
		}
	} else if int(binary.BigEndian.Uint16(ip[2:])) != len(ip) || naive(ip[:20]) != 0xffff {
		t.Fatal("wrong total length or header checksum")
	}
	segment := ip[ipLength:]
	pseudo := []byte{0, unix.IPPROTO_TCP, byte(len(segment) >> 8), byte(len(segment))}
	transportLength := 32
	if gso == gsoUDP {
		pseudo[1], transportLength = unix.IPPROTO_UDP, 8
		if int(binary.BigEndian.Uint16(segment[4:])) != len(segment) {
			t.Fatal("wrong UDP length")
		}
	}
	if naive(addresses, pseudo, segment) != 0xffff {
		t.Fatal("wrong checksum")
	}
	return segment[transportLength:]
}

// TestCut takes super-packets apart in two steps, at every place, and compares
// with the whole.
func TestCut(t *testing.T) {
	for _, kind := range []struct{ version, gso byte }{{4, gsoTCP4}, {6, gsoTCP6}, {4, gsoUDP}, {6, gsoUDP}} {
		const size, payload = 1001, 7*1001 + 13
		whole := superPacket(kind.version, kind.gso, size, payload)
		if whole.segments != 8 {
			t.Fatalf("%d segments, want 8", whole.segments)
		}
		for from := range whole.segments {
			for to := from + 2; to <= whole.segments; to++ {
				headers, data := whole.cut(make([]byte, maxHeaders), from, to)
				part := &packet{buffer: make([]byte, maxRead)}
				n := copy(part.buffer, headers)
				n += copy(part.buffer[n:], data)
				if !part.parse(n) || part.segments != to-from {
					t.Fatalf("[%d, %d) has %d segments", from, to, part.segments)
				}
				var got []byte
				for i := range part.segments {
					headers, data := part.cut(make([]byte, maxHeaders), i, i+1)
					if want := whole.length(from + i); want != len(headers)+len(data)-vnetLen {
						t.Fatalf("segment %d has %d bytes, want %d", from+i, len(headers)+len(data)-vnetLen, want)
					}
					got = append(got, checkWire(t, slices.Concat(headers, data), kind.gso)...)
					if kind.gso == gsoUDP {
						continue
					}
					tcp, first := headers[vnetLen+part.transport:], whole.ip[whole.transport:]
					if binary.BigEndian.Uint32(tcp[4:]) != binary.BigEndian.Uint32(first[4:])+uint32((from+i)*size) {
						t.Fatalf("segment %d has a wrong sequence number", from+i)
					}
					if last := from+i == whole.segments-1; last != (tcp[13]&0x09 == 0x09) || tcp[13]&0x10 == 0 {
						t.Fatalf("segment %d has the flags %#x", from+i, tcp[13])
					}
				}
				if !bytes.Equal(got, whole.ip[whole.headers+from*size:min(whole.headers+to*size, len(whole.ip))]) {
					t.Fatalf("[%d, %d) has another payload", from, to)
				}
				if part.bytes(0, part.segments) != whole.bytes(from, to) {
					t.Fatalf("[%d, %d) has %d bytes, want %d", from, to, part.bytes(0, part.segments), whole.bytes(from, to))
				}
			}
		}
	}
}

func TestParseRefuses(t *testing.T) {
	good := superPacket(4, gsoTCP4, 1000, 3000)
	for name, spoil := range map[string]func(p *packet, n *int){
		"short":           func(_ *packet, n *int) { *n = 20 },
		"no IP":           func(p *packet, _ *int) { p.buffer[vnetLen] = 0x15 },
		"no segment size": func(p *packet, _ *int) { p.buffer[4], p.buffer[5] = 0, 0 },
		"no payload":      func(_ *packet, n *int) { *n = vnetLen + 52 },
		"checksum beyond": func(p *packet, _ *int) { p.buffer[1] = gsoNone; binary.NativeEndian.PutUint16(p.buffer[6:], 60_000) },
		"headers beyond":  func(p *packet, _ *int) { binary.NativeEndian.PutUint16(p.buffer[6:], 60_000) },
	} {
		p := &packet{buffer: bytes.Clone(good.buffer)}
		n := vnetLen + len(good.ip)
		spoil(p, &n)
		if p.parse(n) {
			t.Errorf("%s: it is taken for a packet", name)
		}
	}
}

func TestQueue(t *testing.T) {
	var q queue
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		q.push(run{due: time.Duration(random.IntN(50))})
		if random.IntN(3) == 0 {
			q.pop()
		}
	}
	last := q.pop()
	for q.next() != nil {
		next := q.pop()
		if !last.before(&next) {
			t.Fatalf("%v, %d comes before %v, %d", last.due, last.order, next.due, next.order)
		}
		last = next
	}
}

// FuzzPacket feeds what no kernel would hand over: whatever parse takes, the
// rest of the daemon has to stand.
func FuzzPacket(f *testing.F) {
	for _, kind := range []struct{ version, gso byte }{{4, gsoTCP4}, {6, gsoTCP6}, {4, gsoUDP}, {6, gsoUDP}} {
		p := superPacket(kind.version, kind.gso, 100, 250)
		f.Add(p.buffer[:vnetLen+len(p.ip)])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p := &packet{buffer: make([]byte, maxRead)}
		if !p.parse(copy(p.buffer, data)) {
			return
		}
		p.destination()
		unreachable(make([]byte, maxRead), p)
		if p.gso == gsoNone {
			return
		}
		total := 0
		for i := range p.segments {
			headers, payload := p.cut(make([]byte, maxHeaders), i, i+1)
			total += len(payload)
			if len(headers)+len(payload)-vnetLen != p.length(i) {
				t.Fatalf("segment %d has %d bytes, want %d", i, len(headers)+len(payload)-vnetLen, p.length(i))
			}
		}
		if total != len(p.ip)-p.headers {
			t.Fatalf("%d bytes of payload in segments, want %d", total, len(p.ip)-p.headers)
		}
	})
}
