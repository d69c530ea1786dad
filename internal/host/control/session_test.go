package control_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/control"
)

// pair returns the two sides of a session.
func pair(t *testing.T) (provider, agent *control.Session) {
	t.Helper()
	near, far := net.Pipe()
	type served struct {
		session *control.Session
		begin   control.Begin
		err     error
	}
	other := make(chan served, 1)
	go func() {
		// A login script prints something first.
		_, _ = io.WriteString(far, "Welcome!\nThere is no mail. ")
		session, begin, err := control.Serve(far)
		other <- served{session, begin, err}
	}()
	begin := control.Begin{Owner: control.Owner{ID: "1", Name: "somebody"}, Keepalive: 10 * time.Millisecond}
	provider, err := control.Connect(near, begin)
	if err != nil {
		t.Fatal(err)
	}
	got := <-other
	if got.err != nil || got.begin != begin {
		t.Fatalf("the agent gets %+v, %v", got.begin, got.err)
	}
	t.Cleanup(func() {
		provider.Close()
		got.session.Close()
	})
	return provider, got.session
}

// conns returns the two sides of a dialled connection.
func conns(t *testing.T) (near, far *control.Conn) {
	t.Helper()
	provider, agent := pair(t)
	opened, err := provider.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	near = control.NewConn(control.NewStream(opened, nil))
	if _, err := near.Write(nil); err != nil {
		t.Fatal(err)
	}
	accepted, err := agent.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return near, control.NewConn(control.NewStream(accepted, nil))
}

func TestConnClosedForWriting(t *testing.T) {
	near, far := conns(t)
	big := strings.Repeat("0123456789", control.MaxFrame/4)
	sent := make(chan error, 1)
	go func() {
		_, err := io.WriteString(near, big)
		sent <- errors.Join(err, near.CloseWrite())
	}()
	got, err := io.ReadAll(far)
	if err != nil || string(got) != big {
		t.Errorf("%d of %d bytes arrive, %v", len(got), len(big), err)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
	if _, err := near.Write([]byte("more")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("written after the end: %v", err)
	}
	// The other direction is still open.
	if _, err := io.WriteString(far, "answer"); err != nil {
		t.Fatal(err)
	}
	if err := far.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(near); err != nil || string(got) != "answer" {
		t.Errorf("the answer is %q, %v", got, err)
	}
}

// TestConnDeadline interrupts a read, which goes on where it was.
func TestConnDeadline(t *testing.T) {
	near, far := conns(t)
	if err := far.SetReadDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 4)
	var trouble net.Error
	if _, err := far.Read(buffer); !errors.As(err, &trouble) || !trouble.Timeout() {
		t.Fatalf("read ends with %v", err)
	}
	if err := far.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(near, "late"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(far, buffer); err != nil || string(buffer) != "late" {
		t.Errorf("got %q, %v", buffer, err)
	}
}

// TestConnClosed wants both sides to know of the end of a stream.
func TestConnClosed(t *testing.T) {
	near, far := conns(t)
	ended := make(chan error, 1)
	go func() {
		_, err := near.Read(make([]byte, 1))
		ended <- err
	}()
	if err := near.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("a read goes on after Close")
	}
	if _, err := far.Read(make([]byte, 1)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the other side reads %v", err)
	}
}

// TestSessionCut wants every stream to end with the connection.
func TestSessionCut(t *testing.T) {
	provider, agent := pair(t)
	opened, err := provider.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := opened.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the stream ends with %v", err)
	}
	<-provider.Done()
	if _, err := provider.Open(t.Context()); err == nil {
		t.Error("a stream of a session that has ended")
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := provider.Open(cancelled); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestConnectToSomethingElse does not wait for ever for an agent.
func TestConnectToSomethingElse(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	go func() {
		defer far.Close()
		_, _ = io.WriteString(far, strings.Repeat("This account is closed.\n", 5000))
	}()
	if _, err := control.Connect(near, control.Begin{}); err == nil || !strings.Contains(err.Error(), "wait for the agent") {
		t.Errorf("got %v", err)
	}
}
