package vmtest

import (
	"bytes"
	"net"
	"path/filepath"
	"testing"
	"time"
)

// TestWire sends frames between three ends: each reaches the two others, in
// order, and one end that takes none holds up nobody.
func TestWire(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "wire")
	w, err := newWire(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	var ends [3]net.Conn
	for i := range ends {
		if ends[i], err = net.Dial("unix", socket); err != nil {
			t.Fatal(err)
		}
		defer ends[i].Close()
		_ = ends[i].SetDeadline(time.Now().Add(time.Minute))
	}
	for connected := 0; connected < len(ends); time.Sleep(time.Millisecond) {
		w.mu.Lock()
		connected = len(w.ends)
		w.mu.Unlock()
	}
	frame := func(i int) []byte {
		content := bytes.Repeat([]byte{byte(i)}, 1000)
		return append([]byte{0, 0, byte(len(content) >> 8), byte(len(content) & 0xff)}, content...)
	}
	const count = 3000 // more than the sockets hold, less than may wait
	sent := make(chan error, 1)
	go func() {
		for i := range count {
			if _, err := ends[0].Write(frame(i)); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	for i := range count {
		got, err := readFrame(ends[1])
		if err != nil || !bytes.Equal(got, frame(i)) {
			t.Fatalf("frame %d: %d bytes that begin with %x, %v", i, len(got), got[:min(len(got), 8)], err)
		}
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	// The third end has taken none of them, and still gets what is sent now.
	if _, err := ends[1].Write(frame(7)); err != nil {
		t.Fatal(err)
	}
	if got, err := readFrame(ends[0]); err != nil || !bytes.Equal(got, frame(7)) {
		t.Fatalf("the answer: %d bytes, %v", len(got), err)
	}
	if got, err := readFrame(ends[2]); err != nil || !bytes.Equal(got, frame(0)) {
		t.Fatalf("the third end: %d bytes, %v", len(got), err)
	}
}
