package probe

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/link"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/netem"
)

// Datagrams begin with their kind, the session they belong to and a number.
const (
	kindFlow   = 'f' // answered by itself
	kindFlood  = 'F' // counted only
	kindReport = 'r' // answered by a report, as JSON

	headLen = 13
	// flowLen makes a flow probe as long as an echo request.
	flowLen = 56
	// floodLen is the payload of a flood's datagrams.
	floodLen = 1400
	// overhead is the length of the UDP and IPv4 headers.
	overhead = 28
)

func head(datagram []byte, kind byte, session uint64, number uint32) {
	datagram[0] = kind
	binary.BigEndian.PutUint64(datagram[1:], session)
	binary.BigEndian.PutUint32(datagram[9:], number)
}

// report is what the answering side saw of a session.
type report struct {
	passed
	Arrived int           `json:"arrived"` // different numbers
	Bytes   int64         `json:"bytes"`   // IP bytes after the first packet
	Time    time.Duration `json:"time"`    // from the first to the last packet

	first time.Time
}

// passed are the numbered datagrams of one direction that came.
type passed struct {
	Twice     int `json:"twice"`     // that came again
	Overtaken int `json:"overtaken"` // that came after a later one

	seen    map[uint32]bool
	highest uint32
}

// pass notes a datagram, and tells whether it is the first of its number.
func (p *passed) pass(number uint32) bool {
	if p.seen[number] {
		p.Twice++
		return false
	}
	p.seen[number] = true
	if number < p.highest {
		p.Overtaken++
	}
	p.highest = max(p.highest, number)
	return true
}

// answer answers datagrams at an address until ctx ends.
func answer(ctx context.Context, address string) error {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return err
	}
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(ip, 0)))
	if errors.Is(err, syscall.EADDRNOTAVAIL) { // it is translated on the way here
		conn, err = net.ListenUDP("udp", nil)
	}
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := setOption(conn, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20); err != nil {
		return fmt.Errorf("enlarge the receive buffer: %w", err)
	}
	port := conn.LocalAddr().(*net.UDPAddr).AddrPort().Port() //nolint:forcetypeassert // a UDP socket has one
	fmt.Println(netip.AddrPortFrom(ip, port))
	sessions := map[uint64]*report{}
	buffer := make([]byte, 2048)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(buffer)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if n < headLen {
			continue
		}
		session := binary.BigEndian.Uint64(buffer[1:])
		r := sessions[session]
		if r == nil {
			r = &report{passed: passed{seen: map[uint32]bool{}}}
			sessions[session] = r
		}
		out := buffer[:n]
		switch buffer[0] {
		case kindFlow:
			number := binary.BigEndian.Uint32(buffer[9:])
			if !r.pass(number) {
				continue // a duplicate gets no second answer
			}
		case kindFlood:
			r.flood(n)
			continue
		case kindReport:
			r.Arrived = len(r.seen)
			body, err := json.Marshal(r)
			if err != nil {
				return err
			}
			out = append(out[:headLen], body...)
		}
		if _, err := conn.WriteToUDPAddrPort(out, from); err != nil && !errors.Is(err, syscall.ECONNREFUSED) {
			return err
		}
	}
}

// flood counts one datagram of n bytes.
func (r *report) flood(n int) {
	now := time.Now()
	if r.first.IsZero() {
		r.first = now
		return
	}
	r.Bytes += int64(n + overhead)
	r.Time = now.Sub(r.first)
}

// flow sends numbered datagrams and counts those that arrive and those that
// come back.
func flow(to netip.AddrPort, p pace) (link.Flow, error) {
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
	if err != nil {
		return link.Flow{}, err
	}
	defer conn.Close()
	session := rand.Uint64()
	received := make(chan passed, 1)
	go func() { received <- returning(conn, session, p.count) }()
	datagram := make([]byte, flowLen)
	err = p.send(func(i int) error {
		head(datagram, kindFlow, session, uint32(i))
		_, err := conn.Write(datagram)
		return err
	})
	_ = conn.SetReadDeadline(time.Now().Add(p.wait))
	back := <-received
	if err != nil {
		return link.Flow{}, err
	}
	r, err := ask(conn, session)
	if err != nil {
		return link.Flow{}, err
	}
	return link.Flow{
		Sent: p.count, Arrived: r.Arrived, Twice: r.Twice, Overtaken: r.Overtaken,
		Returned: len(back.seen), TwiceReturned: back.Twice, OvertakenReturned: back.Overtaken,
	}, nil
}

// returning notes the numbers that come back, until all have or the
// connection's deadline is over.
func returning(conn *net.UDPConn, session uint64, count int) passed {
	back := passed{seen: map[uint32]bool{}}
	buffer := make([]byte, 2048)
	for len(back.seen) < count {
		n, err := conn.Read(buffer)
		if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, net.ErrClosed) {
			break
		}
		if err != nil || n < headLen || buffer[0] != kindFlow || binary.BigEndian.Uint64(buffer[1:]) != session {
			continue
		}
		back.pass(binary.BigEndian.Uint32(buffer[9:]))
	}
	return back
}

// ask asks the answering side for its report until it comes, since the link
// may lose the question.
func ask(conn *net.UDPConn, session uint64) (report, error) {
	question := make([]byte, headLen)
	buffer := make([]byte, 2048)
	for attempt := range uint32(100) {
		head(question, kindReport, session, attempt)
		if _, err := conn.Write(question); err != nil {
			return report{}, err
		}
		_ = conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		for {
			n, err := conn.Read(buffer)
			if err != nil {
				break
			}
			if n < headLen || buffer[0] != kindReport || binary.BigEndian.Uint64(buffer[1:]) != session {
				continue
			}
			var r report
			return r, json.Unmarshal(buffer[headLen:n], &r)
		}
	}
	return report{}, errors.New("the other host does not answer")
}

// maxBurst is how many datagrams a flood sends at once.
const maxBurst = 40

// flood sends a quarter more than the rate for a second and returns what
// arrived.
func flood(ctx context.Context, to netip.AddrPort, rate netem.Rate) (link.Flood, error) {
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
	if err != nil {
		return link.Flood{}, err
	}
	defer conn.Close()
	// One call sends several datagrams, which the kernel cuts apart, where the
	// device works out checksums.
	if err := setOption(conn, unix.SOL_UDP, unix.UDP_SEGMENT, floodLen); err != nil {
		return link.Flood{}, fmt.Errorf("set the size of segments: %w", err)
	}
	perCall := floodLen * maxBurst
	gap := rate.Serialize(floodLen+overhead) * 4 / 5
	burst := int(max(1, min(maxBurst, 2*time.Millisecond/max(1, gap))))
	count := int(max(10, time.Second/max(1, gap)))
	session := rand.Uint64()
	datagrams := make([]byte, burst*floodLen)
	for i := range burst {
		head(datagrams[i*floodLen:], kindFlood, session, 0)
	}
	start := time.Now()
	for sent := 0; sent < count && ctx.Err() == nil; sent += burst {
		time.Sleep(time.Until(start.Add(time.Duration(sent) * gap)))
		for chunk := range slices.Chunk(datagrams, perCall) {
			_, err := conn.Write(chunk)
			if errors.Is(err, unix.EIO) && perCall > floodLen {
				perCall = floodLen
				err = setOption(conn, unix.SOL_UDP, unix.UDP_SEGMENT, 0)
			}
			if err != nil {
				return link.Flood{}, err
			}
		}
	}
	if err := setOption(conn, unix.SOL_UDP, unix.UDP_SEGMENT, 0); err != nil {
		return link.Flood{}, err
	}
	r, err := ask(conn, session)
	return link.Flood{Bytes: r.Bytes, Time: r.Time}, err
}

func setOption(conn *net.UDPConn, level, option, value int) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var failure error
	if err := raw.Control(func(fd uintptr) { failure = unix.SetsockoptInt(int(fd), level, option, value) }); err != nil {
		return err
	}
	return os.NewSyscallError("setsockopt", failure)
}
