package daemon

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMain lets the test program play both ends of a transfer, each in the
// namespace of its host.
func TestMain(m *testing.M) {
	var err error
	switch args := append(os.Args, ""); args[1] {
	case "receive": // NETWORK ADDRESS
		err = receive(args[2], args[3])
	case "send": // NETWORK ADDRESS BYTES
		err = send(args[2], args[3], args[4])
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

const (
	// datagram is the payload of a UDP datagram: a number, and data.
	datagram = 1400
	// pause lets the kernel's receive buffer keep up.
	pause = 5 * time.Millisecond
)

// send sends random bytes and prints their digest. UDP ones go in bursts that
// the kernel hands over as super-packets.
func send(network, address, count string) error {
	size, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	conn, err := net.Dial(network, address)
	if err != nil {
		return err
	}
	defer conn.Close()
	data := make([]byte, size)
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(data)
	digest := sha256.New()
	if network == "tcp" {
		digest.Write(data)
		if _, err := conn.Write(data); err != nil {
			return err
		}
		fmt.Printf("%x\n", digest.Sum(nil))
		return nil
	}
	raw, err := conn.(*net.UDPConn).SyscallConn()
	if err != nil {
		return err
	}
	err = raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_UDP, unix.UDP_SEGMENT, datagram) })
	if err != nil {
		return err
	}
	size -= size % (20 * datagram)
	for at := 0; at < size; at += datagram {
		binary.BigEndian.PutUint32(data[at:], uint32(at/datagram))
	}
	digest.Write(data[:size])
	for at := 0; at < size; at += 20 * datagram {
		if _, err := conn.Write(data[at : at+20*datagram]); err != nil {
			return err
		}
		time.Sleep(pause)
	}
	fmt.Printf("%x\n", digest.Sum(nil))
	return nil
}

// receive prints the digest of what arrives from one sender, datagrams in the
// order of their numbers. UDP ends with a second without any.
func receive(network, address string) error {
	digest := sha256.New()
	if network == "tcp" {
		listener, err := net.Listen(network, address)
		if err != nil {
			return err
		}
		fmt.Println("ready")
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		defer conn.Close()
		if _, err := io.Copy(digest, conn); err != nil {
			return err
		}
		fmt.Printf("%x\n", digest.Sum(nil))
		return nil
	}
	conn, err := net.ListenPacket(network, address)
	if err != nil {
		return err
	}
	defer conn.Close()
	fmt.Println("ready")
	all := map[uint32][]byte{}
	buffer := make([]byte, 2*datagram)
	for {
		n, _, err := conn.ReadFrom(buffer)
		if err != nil {
			break
		}
		all[binary.BigEndian.Uint32(buffer)] = bytes.Clone(buffer[:n])
		if err := conn.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
			return err
		}
	}
	for i := range uint32(len(all)) {
		digest.Write(all[i])
	}
	fmt.Printf("%x\n", digest.Sum(nil))
	return nil
}

// transfer sends bytes from one host to another and returns the digests of
// what both saw.
func (l *lab) transfer(from, to, address, network string, size int) (sent, received string) {
	l.tb.Helper()
	program, err := os.Executable()
	if err != nil {
		l.tb.Fatal(err)
	}
	target := net.JoinHostPort(address, "5000")
	receiver := l.command(to, program, "receive", network, target)
	out, err := receiver.StdoutPipe()
	if err != nil {
		l.tb.Fatal(err)
	}
	if err := receiver.Start(); err != nil {
		l.tb.Fatal(err)
	}
	ready := make([]byte, len("ready\n"))
	if _, err := io.ReadFull(out, ready); err != nil {
		l.tb.Fatal(err)
	}
	sent = strings.TrimSpace(l.run(from, program, "send", network, target, strconv.Itoa(size)))
	rest, err := io.ReadAll(out)
	if err != nil {
		l.tb.Fatal(err)
	}
	if err := receiver.Wait(); err != nil {
		l.tb.Fatal(err)
	}
	return sent, strings.TrimSpace(string(rest))
}
