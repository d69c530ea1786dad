package daemon

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// A TUN device puts a virtio header before each IP packet. It describes
// super-packets, which hold many packets of one TCP or UDP flow behind one set
// of headers, and checksums that are still to be computed.
const (
	vnetLen = 10
	// maxRead is the virtio header and the longest IP packet.
	maxRead = vnetLen + 65535
	// maxHeaders is the virtio header, an IPv6 header with extensions and the
	// longest TCP header.
	maxHeaders = vnetLen + 256 + 60

	needsChecksum = unix.VIRTIO_NET_HDR_F_NEEDS_CSUM
	gsoNone       = unix.VIRTIO_NET_HDR_GSO_NONE
	gsoTCP4       = unix.VIRTIO_NET_HDR_GSO_TCPV4
	gsoTCP6       = unix.VIRTIO_NET_HDR_GSO_TCPV6
	gsoUDP        = unix.VIRTIO_NET_HDR_GSO_UDP_L4
)

// packet is what one read from a TUN device gave: a packet, or a super-packet
// of several segments, which are the packets on the wire. It belongs to the
// thread of the port that read it.
type packet struct {
	buffer []byte
	ip     []byte // the part of buffer behind the virtio header
	refs   int    // runs of segments that wait

	gso       byte
	transport int // where the TCP or UDP header starts, in bytes from ip
	headers   int // length of all headers that each segment repeats
	size      int // payload of each segment but the last
	segments  int
}

// parse takes n bytes of the buffer apart. It returns false for what is not a
// packet that the daemon can forward.
func (p *packet) parse(n int) bool {
	if n < vnetLen+20 {
		return false
	}
	head := p.buffer[:vnetLen]
	p.ip = p.buffer[vnetLen:n]
	network := int(p.ip[0]&0xf) * 4 // length of the IP header
	switch p.ip[0] >> 4 {
	case 4:
	case 6:
		network = 40
	default:
		return false
	}
	if network < 20 || len(p.ip) < network {
		return false
	}
	p.gso, p.segments = head[1], 1
	p.transport = int(binary.NativeEndian.Uint16(head[6:]))
	checksumAt := p.transport + int(binary.NativeEndian.Uint16(head[8:]))
	if p.gso == gsoNone {
		if head[0]&needsChecksum != 0 {
			if checksumAt+2 > len(p.ip) {
				return false
			}
			completeChecksum(p.ip, p.transport, checksumAt)
			clear(head)
		}
		return true
	}
	if p.transport < network {
		return false
	}
	switch p.gso {
	case gsoTCP4, gsoTCP6:
		if len(p.ip) < p.transport+20 {
			return false
		}
		p.headers = p.transport + max(20, int(p.ip[p.transport+12]>>4)*4)
	case gsoUDP:
		p.headers = p.transport + 8
	default:
		return false
	}
	p.size = int(binary.NativeEndian.Uint16(head[4:]))
	if p.size == 0 || len(p.ip) <= p.headers || p.headers > maxHeaders-vnetLen {
		return false
	}
	p.segments = (len(p.ip) - p.headers + p.size - 1) / p.size
	return true
}

// length is the size of one segment as an IP packet, in bytes.
func (p *packet) length(segment int) int {
	if p.gso == gsoNone {
		return len(p.ip)
	}
	return p.headers + min(p.size, len(p.ip)-p.headers-segment*p.size)
}

// bytes is the size of the segments [from, to) together.
func (p *packet) bytes(from, to int) int {
	if p.gso == gsoNone {
		return (to - from) * len(p.ip)
	}
	return (to-from)*p.headers + min(to*p.size, len(p.ip)-p.headers) - from*p.size
}

// destination is the packet's destination address.
func (p *packet) destination() netip.Addr {
	if p.ip[0]>>4 == 4 {
		return netip.AddrFrom4([4]byte(p.ip[16:20]))
	}
	return netip.AddrFrom16([16]byte(p.ip[24:40]))
}

// cut writes the headers of the segments [from, to) into head, which has room
// for maxHeaders, and returns them, virtio header first, with the payload that
// follows. Several segments are a smaller super-packet; a single one is a
// packet with a complete checksum.
func (p *packet) cut(head []byte, from, to int) (headers, payload []byte) {
	payload = p.ip[p.headers+from*p.size : min(p.headers+to*p.size, len(p.ip))]
	headers = head[:vnetLen+p.headers]
	copy(headers, p.buffer[:vnetLen+p.headers])
	ip := headers[vnetLen:]
	if length := len(ip) + len(payload); ip[0]>>4 == 4 {
		binary.BigEndian.PutUint16(ip[2:], uint16(length))
		binary.BigEndian.PutUint16(ip[4:], binary.BigEndian.Uint16(ip[4:])+uint16(from))
		sealIPv4(ip)
	} else {
		binary.BigEndian.PutUint16(ip[4:], uint16(length-40))
	}
	segment := ip[p.transport:]
	length := len(segment) + len(payload)
	protocol, checksumAt := byte(unix.IPPROTO_TCP), 16
	if p.gso == gsoUDP {
		protocol, checksumAt = unix.IPPROTO_UDP, 6
		binary.BigEndian.PutUint16(segment[4:], uint16(length))
	} else {
		binary.BigEndian.PutUint32(segment[4:], binary.BigEndian.Uint32(segment[4:])+uint32(from*p.size))
		if to < p.segments {
			segment[13] &^= 0x09 // FIN and PSH belong to the last segment
		}
	}
	pseudo := pseudoSum(ip, protocol, length)
	if to-from > 1 {
		binary.BigEndian.PutUint16(segment[checksumAt:], fold(pseudo))
		return headers, payload
	}
	clear(headers[:vnetLen])
	segment[checksumAt], segment[checksumAt+1] = 0, 0
	// The headers have an even length, so the sums simply add up.
	checksum := ^fold(sum(payload, sum(segment, pseudo)))
	if checksum == 0 && p.gso == gsoUDP {
		checksum = 0xffff // zero means none in UDP
	}
	binary.BigEndian.PutUint16(segment[checksumAt:], checksum)
	return headers, payload
}

// completeChecksum does what the kernel left to the device: the field holds
// the sum of the pseudo-header.
func completeChecksum(ip []byte, start, at int) {
	checksum := ^fold(sum(ip[start:], 0))
	if checksum == 0 {
		checksum = 0xffff // zero means none in UDP, and is the same elsewhere
	}
	binary.BigEndian.PutUint16(ip[at:], checksum)
}

// sealIPv4 computes the checksum of an IPv4 header.
func sealIPv4(ip []byte) {
	ip[10], ip[11] = 0, 0
	header := ip[:int(ip[0]&0xf)*4]
	binary.BigEndian.PutUint16(ip[10:], ^fold(sum(header, 0)))
}

// pseudoSum sums the pseudo-header of a TCP or UDP segment of length bytes.
func pseudoSum(ip []byte, protocol byte, length int) uint64 {
	addresses := ip[12:20]
	if ip[0]>>4 == 6 {
		addresses = ip[8:40]
	}
	return sum(addresses, uint64(protocol)+uint64(length))
}

// sum adds the 16-bit big-endian words of data to an Internet checksum that is
// not folded yet.
func sum(data []byte, total uint64) uint64 {
	for len(data) >= 32 {
		a, b := binary.BigEndian.Uint64(data), binary.BigEndian.Uint64(data[8:])
		c, d := binary.BigEndian.Uint64(data[16:]), binary.BigEndian.Uint64(data[24:])
		total += a>>32 + a&0xffffffff + b>>32 + b&0xffffffff + c>>32 + c&0xffffffff + d>>32 + d&0xffffffff
		data = data[32:]
	}
	for len(data) >= 2 {
		total += uint64(binary.BigEndian.Uint16(data))
		data = data[2:]
	}
	if len(data) == 1 {
		total += uint64(data[0]) << 8
	}
	return total
}

// fold reduces a sum to 16 bits with end-around carry.
func fold(total uint64) uint16 {
	for total > 0xffff {
		total = total>>16 + total&0xffff
	}
	return uint16(total)
}

// copyFrom makes p a copy that has a buffer of its own.
func (p *packet) copyFrom(q *packet) {
	buffer := p.buffer
	*p = *q
	p.buffer, p.refs = buffer, 0
	n := copy(buffer, q.buffer[:vnetLen+len(q.ip)])
	p.ip = buffer[vnetLen:n]
}
