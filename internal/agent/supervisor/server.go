package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/control"
)

// server answers the clients of a host.
type server struct {
	children *children
	services keeper
	now      func() time.Time
}

// keeper keeps services running.
type keeper interface {
	Start(service host.Service) error
	Stop(name string) error
	Restart(name string) error
	Signal(name string, signal syscall.Signal) error
	Status(name string) (host.ServiceStatus, error)
	Log(name string, lines int) ([]byte, error)
}

// newServer returns the server of a host.
func newServer(children *children, services keeper) http.Handler {
	s := &server{children: children, services: services, now: time.Now}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /facts", answer(s.getFacts))
	mux.HandleFunc("POST /run", s.run)
	mux.HandleFunc("POST /dial", s.dial)
	mux.HandleFunc("GET /file", answer(getFile))
	mux.HandleFunc("PUT /file", answer(putFile))
	mux.HandleFunc("DELETE /file", answer(deleteFile))
	mux.HandleFunc("PUT /services/{name}", answer(s.putService))
	mux.HandleFunc("GET /services/{name}", answer(s.getService))
	mux.HandleFunc("DELETE /services/{name}", answer(s.deleteService))
	mux.HandleFunc("POST /services/{name}/restart", answer(s.restartService))
	mux.HandleFunc("POST /services/{name}/signal", answer(s.signalService))
	mux.HandleFunc("GET /services/{name}/log", answer(s.getLog))
	return mux
}

// answer turns the error of a handler that has written nothing yet into the
// status by which clients tell absence from trouble.
func answer(handle func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := handle(w, r)
		switch {
		case err == nil:
		case errors.Is(err, fs.ErrNotExist):
			http.Error(w, err.Error(), http.StatusNotFound)
		case errors.Is(err, host.ErrForeign):
			http.Error(w, err.Error(), http.StatusConflict)
		default:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}
}

func reply(w http.ResponseWriter, value any) error {
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(value)
}

func getFile(w http.ResponseWriter, r *http.Request) error {
	file, err := os.Open(r.URL.Query().Get("path"))
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if info.IsDir() {
		return &fs.PathError{Op: "read", Path: file.Name(), Err: syscall.EISDIR}
	}
	_, err = io.Copy(w, file)
	return err
}

// putFile writes a file beside its place and moves it there once it is safely
// on the disk.
func putFile(_ http.ResponseWriter, r *http.Request) error {
	path := filepath.Clean(r.URL.Query().Get("path"))
	mode, err := strconv.ParseUint(r.URL.Query().Get("mode"), 8, 32)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".testbed-*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = io.Copy(file, r.Body)
	if err := errors.Join(err, syscall.Fchmod(int(file.Fd()), uint32(mode)), file.Sync(), file.Close()); err != nil {
		return err
	}
	// A child that is being forked has the file open too until it executes its
	// own program, and until then this one cannot be executed.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.Rename(file.Name(), path)
}

func deleteFile(_ http.ResponseWriter, r *http.Request) error {
	path := filepath.Clean(r.URL.Query().Get("path"))
	if path == "/" {
		return errors.New("remove /: this is the whole host")
	}
	return os.RemoveAll(path)
}

func (s *server) putService(_ http.ResponseWriter, r *http.Request) error {
	var service host.Service
	if err := json.NewDecoder(r.Body).Decode(&service); err != nil {
		return err
	}
	return s.services.Start(service)
}

func (s *server) getService(w http.ResponseWriter, r *http.Request) error {
	status, err := s.services.Status(r.PathValue("name"))
	if err != nil {
		return err
	}
	return reply(w, status)
}

func (s *server) deleteService(_ http.ResponseWriter, r *http.Request) error {
	return s.services.Stop(r.PathValue("name"))
}

func (s *server) restartService(_ http.ResponseWriter, r *http.Request) error {
	return s.services.Restart(r.PathValue("name"))
}

func (s *server) signalService(_ http.ResponseWriter, r *http.Request) error {
	number, err := strconv.Atoi(r.URL.Query().Get("number"))
	if err != nil {
		return err
	}
	return s.services.Signal(r.PathValue("name"), syscall.Signal(number))
}

func (s *server) getLog(w http.ResponseWriter, r *http.Request) error {
	lines, err := strconv.Atoi(r.URL.Query().Get("lines"))
	if err != nil {
		return err
	}
	content, err := s.services.Log(r.PathValue("name"), lines)
	if err != nil {
		return err
	}
	_, err = w.Write(content)
	return err
}

// upgrade switches the connection from HTTP to a protocol of its own.
func upgrade(w http.ResponseWriter) (*control.Stream, error) {
	conn, buffer, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, err
	}
	if _, err := io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: testbed\r\n\r\n"); err != nil {
		conn.Close()
		return nil, err
	}
	return control.NewStream(conn, buffer.Reader), nil
}

// dial opens a connection from within the host and passes on what goes through
// it, both directions for themselves.
func (s *server) dial(w http.ResponseWriter, r *http.Request) {
	network, address := r.URL.Query().Get("network"), r.URL.Query().Get("address")
	ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
	defer cancel()
	target, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		var number syscall.Errno
		if errors.As(err, &number) {
			w.Header().Set(control.ErrnoHeader, strconv.Itoa(int(number)))
		}
		var trouble net.Error
		if errors.As(err, &trouble) && trouble.Timeout() {
			w.Header().Set(control.TimeoutHeader, "true")
		}
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer target.Close()
	stream, ok := target.(halfCloser)
	if !ok {
		http.Error(w, "dial "+network+": only tcp and unix connections can be passed on", http.StatusBadRequest)
		return
	}
	switched, err := upgrade(w)
	if err != nil {
		return
	}
	client := control.NewConn(switched)
	defer client.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		pass(client, stream)
	}()
	pass(stream, client)
	<-done
}

// halfCloser is a connection that can be closed for writing alone.
type halfCloser interface {
	net.Conn
	CloseWrite() error
}

// pass copies one direction to its end, and the end as well. Trouble ends both
// directions.
func pass(to, from halfCloser) {
	if _, err := io.Copy(to, from); err != nil {
		to.Close()
		from.Close()
		return
	}
	_ = to.CloseWrite()
}
