package load

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// reader is what a wire needs to read. Reads of one connection follow each
// other, so that there is one of everything.
type reader struct {
	take    func(uintptr) bool // receive, made once
	message unix.Msghdr
	vector  unix.Iovec
	extra   [64]byte // control messages

	send   []byte // to be sent first by the read under way
	sent   time.Time
	read   time.Time // when the last read returned
	count  int
	fault  error
	failed string // system call
}

// stampArrivals has the kernel tell when what is read had arrived.
func (w *wire) stampArrivals() {
	w.take = w.receive
	w.message.Iov = &w.vector
	w.message.SetIovlen(1)
	// A kernel that cannot do that gives no times, which is what is recorded.
	_ = w.raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS_NEW, 1)
	})
}

// ask has the next Read send a request before it reads. That spares looking
// for an answer that cannot be there yet.
func (w *wire) ask(request []byte) { w.send, w.sent = request, time.Time{} }

// asked returns when the request had been handed over, zero when it was not.
func (w *wire) asked() time.Time { return w.sent }

// Read is that of the connection, and takes the time of arrival along.
func (w *wire) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	w.vector.Base, w.count, w.fault = &p[0], 0, nil
	w.vector.SetLen(len(p))
	err := w.raw.Read(w.take)
	w.vector.Base, w.send = nil, nil
	switch {
	case err != nil:
		var op *net.OpError
		if errors.As(err, &op) {
			op.Op = "read" // and not "raw-read", which is how
		}
		return 0, err
	case w.fault != nil:
		return 0, &net.OpError{Op: "read", Net: "tcp", Source: w.LocalAddr(), Addr: w.RemoteAddr(), Err: os.NewSyscallError(w.failed, w.fault)}
	case w.count == 0:
		return 0, io.EOF
	}
	return w.count, nil
}

// receive reads once from the socket and tells whether that was all there is
// to do; if not, it is called again when there is something to read. What
// arrives after its first call does make it be called again, which is why it
// may send then and not look.
func (w *wire) receive(fd uintptr) bool {
	if len(w.send) > 0 {
		return w.sendFirst(fd)
	}
	w.message.Control = &w.extra[0]
	w.message.SetControllen(len(w.extra))
	n, errno := call(unix.SYS_RECVMSG, fd, unsafe.Pointer(&w.message), 0)
	switch errno {
	case unix.EAGAIN:
		return false
	case 0:
		w.count, w.read = n, time.Now()
		w.arrived.Store(arrival(w.extra[:w.message.Controllen]))
	default:
		w.failed, w.fault = "recvmsg", errno
	}
	return true
}

// call makes a system call that reads from or writes to the socket. The socket
// does not block, so Go's scheduler is not told: on a busy machine it takes a
// thread that the kernel has set aside for a moment for one that is blocked, and
// starts others in its place, which costs a tenth of the work.
func call(number, fd uintptr, what unsafe.Pointer, last uintptr) (int, unix.Errno) {
	for {
		n, _, errno := unix.RawSyscall(number, fd, uintptr(what), last)
		if errno != unix.EINTR {
			return int(n), errno
		}
	}
}

// sendFirst sends the request. One that does not go out at once is sent for as
// long as it takes; its answer has not begun.
func (w *wire) sendFirst(fd uintptr) bool {
	n, errno := call(unix.SYS_WRITE, fd, unsafe.Pointer(&w.send[0]), uintptr(len(w.send)))
	var err error
	switch errno {
	case 0:
	case unix.EAGAIN:
		n = 0
	default:
		err = errno
	}
	if err == nil && n < len(w.send) {
		rest := w.send[n:]
		w.send = nil
		if _, err = w.Write(rest); err == nil {
			w.sent = time.Now()
			// Waiting for the rest to go out has forgotten nothing of what
			// arrived: only reading does.
			return false
		}
	}
	if err != nil {
		w.failed, w.fault = "write", err
		return true
	}
	w.send, w.sent = nil, time.Now()
	return false
}

// arrival reads the time out of control messages. There is one at most; its
// header ends where its data would begin.
func arrival(messages []byte) int64 {
	header := unix.CmsgLen(0)
	if len(messages) < header+16 {
		return 0
	}
	kind := binary.NativeEndian.Uint32(messages[header-4:])
	if kind != unix.SO_TIMESTAMPNS_NEW {
		return 0
	}
	seconds := binary.NativeEndian.Uint64(messages[header:])
	nanoseconds := binary.NativeEndian.Uint64(messages[header+8:])
	return int64(seconds)*1e9 + int64(nanoseconds)
}

// quiet tells whether a connection that carries no request is one that the
// server has not closed, and has sent nothing on that nobody asked for.
func (w *wire) quiet() bool {
	quiet := false
	err := w.raw.Control(func(fd uintptr) {
		var one [1]byte
		_, _, err := unix.Recvfrom(int(fd), one[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		quiet = err == unix.EAGAIN
	})
	return err == nil && quiet
}

// holdStamps makes sure that the kernel stamps what arrives until release is
// called. It begins to do so a moment after the first socket asks for it, and
// ends with the last one, which for a job of a few requests may be too late.
// Where that cannot be had, arrivals are not told.
func holdStamps() (release func()) {
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return func() {}
	}
	defer listener.Close()
	to, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		return func() {}
	}
	near, err := net.DialTCP("tcp", nil, to)
	if err != nil {
		return func() {}
	}
	release = func() { near.Close() }
	far, err := listener.Accept()
	if err != nil {
		return release
	}
	defer far.Close()
	w, err := newWire(near)
	if err != nil {
		return release
	}
	_ = w.SetDeadline(time.Now().Add(stampPatience))
	var one [1]byte
	for w.arrived.Load() == 0 {
		if _, err := far.Write(one[:]); err != nil {
			break
		}
		if _, err := w.Read(one[:]); err != nil {
			break
		}
	}
	return release
}

// stampPatience bounds how long a job waits for the kernel to stamp.
const stampPatience = time.Second
