package load

import (
	"net"
	"sync/atomic"
	"syscall"
)

// wire is a TCP connection that knows when what was last read had arrived at
// this machine, which is before a busy client comes to read it.
type wire struct {
	*net.TCPConn
	raw     syscall.RawConn
	arrived atomic.Int64 // Unix time in nanoseconds, 0 when the kernel does not tell
	reader
}

func newWire(conn *net.TCPConn) (*wire, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	w := &wire{TCPConn: conn, raw: raw}
	w.stampArrivals()
	return w, nil
}
