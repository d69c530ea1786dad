package vmtest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

const (
	// maxMessage is more than any frame, in bytes.
	maxMessage = 128 << 10

	// queued is how many frames may wait for a machine that takes none; more
	// are lost, as on any wire.
	queued = 4096
)

// wire is the machines' own network: each frame that one sends reaches all
// others. The emulators connect to its socket and send each frame behind its
// length in four bytes.
type wire struct {
	listener net.Listener
	all      sync.WaitGroup

	mu    sync.Mutex
	ends  map[*end]bool
	ended bool
}

// end is a machine's end of the wire.
type end struct {
	conn   net.Conn
	frames chan []byte // with their lengths
	gone   chan struct{}
}

func newWire(socket string) (*wire, error) {
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	w := &wire{listener: listener, ends: map[*end]bool{}}
	w.all.Go(w.accept)
	return w, nil
}

// Close cuts the wire.
func (w *wire) Close() {
	w.listener.Close()
	w.mu.Lock()
	w.ended = true
	for e := range w.ends {
		e.conn.Close()
	}
	w.mu.Unlock()
	w.all.Wait()
}

func (w *wire) accept() {
	for {
		conn, err := w.listener.Accept()
		if err != nil {
			return
		}
		e := &end{conn: conn, frames: make(chan []byte, queued), gone: make(chan struct{})}
		w.mu.Lock()
		if w.ended {
			conn.Close()
		}
		w.ends[e] = true
		w.mu.Unlock()
		w.all.Go(func() { w.receive(e) })
		w.all.Go(e.send)
	}
}

// receive passes on what a machine sends, until it ends.
func (w *wire) receive(from *end) {
	defer func() {
		w.mu.Lock()
		delete(w.ends, from)
		w.mu.Unlock()
		close(from.gone)
		from.conn.Close()
	}()
	for {
		frame, err := readFrame(from.conn)
		if err != nil {
			return
		}
		w.mu.Lock()
		for to := range w.ends {
			if to == from {
				continue
			}
			select {
			case to.frames <- frame:
			default:
			}
		}
		w.mu.Unlock()
	}
}

func readFrame(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > maxMessage {
		return nil, fmt.Errorf("read frame: %d bytes are none", size)
	}
	frame := make([]byte, len(head)+int(size))
	copy(frame, head[:])
	_, err := io.ReadFull(r, frame[len(head):])
	return frame, err
}

func (e *end) send() {
	for {
		select {
		case frame := <-e.frames:
			if _, err := e.conn.Write(frame); err != nil && !errors.Is(err, net.ErrClosed) {
				e.conn.Close()
				return
			}
		case <-e.gone:
			return
		}
	}
}
