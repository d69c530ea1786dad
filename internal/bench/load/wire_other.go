//go:build !linux

package load

import "time"

// reader has nothing to read by here: the connection reads.
type reader struct{ sent, read time.Time }

// Read is that of the connection, and takes the time along.
func (w *wire) Read(p []byte) (int, error) {
	n, err := w.TCPConn.Read(p)
	w.read = time.Now()
	return n, err
}

// ask sends a request.
func (w *wire) ask(request []byte) {
	w.sent = time.Time{}
	// The next read tells what is wrong.
	if _, err := w.TCPConn.Write(request); err == nil {
		w.sent = time.Now()
	}
}

// asked returns when the request had been handed over, zero when it was not.
func (w *wire) asked() time.Time { return w.sent }

// stampArrivals does nothing: arrivals are not told here.
func (*wire) stampArrivals() {}

// holdStamps does nothing, for the same reason.
func holdStamps() (release func()) { return func() {} }

// quiet takes the connection for usable, which the next request will tell.
func (*wire) quiet() bool { return true }
