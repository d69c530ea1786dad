package probe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/link"
)

// echo sends ICMP echo requests and times the answers. The kernel stamps the
// answers, so waking this program up is no part of the time.
func echo(to netip.Addr, p pace) (link.Echoes, error) {
	e := echoer{identifier: uint16(os.Getpid()), sent: make([]atomic.Int64, p.count)}
	if err := e.open(to); err != nil {
		return link.Echoes{}, fmt.Errorf("open a socket for echo requests: %w", err)
	}
	defer unix.Close(e.fd)
	var deadline atomic.Int64 // of waiting, once everything is sent
	times := make(chan []time.Duration)
	go func() { times <- e.receive(p.count, &deadline) }()
	err := p.send(e.request)
	deadline.Store(time.Now().Add(p.wait).UnixNano())
	result := link.Echoes{Sent: p.count, RTT: <-times}
	if err != nil {
		return link.Echoes{}, err
	}
	return result, nil
}

type echoer struct {
	fd               int
	question, answer byte // ICMP types
	header           int  // bytes before the ICMP message in what is read
	address          unix.Sockaddr
	identifier       uint16
	sent             []atomic.Int64 // when, in nanoseconds since 1970
}

func (e *echoer) open(to netip.Addr) (err error) {
	if to.Is4() {
		e.question, e.answer, e.header = 8, 0, 20
		e.address = &unix.SockaddrInet4{Addr: to.As4()}
		e.fd, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
	} else {
		e.question, e.answer = 128, 129
		e.address = &unix.SockaddrInet6{Addr: to.As16()}
		e.fd, err = unix.Socket(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMPV6)
	}
	if err != nil {
		return err
	}
	// The socket hears only the other host from now on.
	return errors.Join(
		unix.Connect(e.fd, e.address),
		unix.SetsockoptInt(e.fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1),
		unix.SetsockoptTimeval(e.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 20_000}),
	)
}

// request sends the i-th echo request, of 64 bytes.
func (e *echoer) request(i int) error {
	var message [64]byte
	message[0] = e.question
	binary.BigEndian.PutUint16(message[4:], e.identifier)
	binary.BigEndian.PutUint16(message[6:], uint16(i))
	binary.BigEndian.PutUint32(message[8:], uint32(i))
	if e.question == 8 { // the kernel does it in ICMPv6
		binary.BigEndian.PutUint16(message[2:], checksum(message[:]))
	}
	e.sent[i].Store(time.Now().UnixNano())
	_, err := unix.Write(e.fd, message[:])
	return err
}

// receive returns the times of the first answer to each request, until all
// have come or the deadline, once it is set, is over.
func (e *echoer) receive(count int, deadline *atomic.Int64) []time.Duration {
	var times []time.Duration
	answered := make([]bool, count)
	buffer := make([]byte, 2048)
	control := make([]byte, 128)
	for len(times) < count {
		n, controls, _, _, err := unix.Recvmsg(e.fd, buffer, control, 0)
		if err != nil {
			if d := deadline.Load(); d != 0 && time.Now().UnixNano() > d {
				return times
			}
			continue
		}
		message := buffer[min(e.header, n):n]
		if len(message) < 12 || message[0] != e.answer || binary.BigEndian.Uint16(message[4:]) != e.identifier {
			continue
		}
		i := int(binary.BigEndian.Uint32(message[8:]))
		if i >= count || answered[i] {
			continue
		}
		answered[i] = true
		times = append(times, time.Duration(stamp(control[:controls])-e.sent[i].Load()))
	}
	return times
}

// stamp returns when the kernel received a message, in nanoseconds since 1970.
func stamp(control []byte) int64 {
	messages, err := unix.ParseSocketControlMessage(control)
	if err == nil {
		for _, m := range messages {
			if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SO_TIMESTAMPNS && len(m.Data) >= int(unsafe.Sizeof(unix.Timespec{})) {
				return (*unix.Timespec)(unsafe.Pointer(&m.Data[0])).Nano()
			}
		}
	}
	return time.Now().UnixNano()
}

// checksum is the Internet checksum of data of even length.
func checksum(data []byte) uint16 {
	var sum uint32
	for ; len(data) >= 2; data = data[2:] {
		sum += uint32(binary.BigEndian.Uint16(data))
	}
	sum = sum>>16 + sum&0xffff
	return ^uint16(sum + sum>>16)
}
