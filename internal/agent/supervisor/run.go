package supervisor

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/control"
)

// After a command has ended, its pipes hold at most pipeSize bytes that it
// wrote. Only processes that it left behind write more, and their output is
// awaited for no longer than lateOutput.
const (
	pipeSize   = 64 << 10
	lateOutput = 100 * time.Millisecond
)

// run runs a command for a client, and ends it with its whole process group
// when the client goes away.
func (s *server) run(w http.ResponseWriter, r *http.Request) {
	var request control.Run
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil || len(request.Argv) == 0 {
		http.Error(w, "run: the request is no command", http.StatusBadRequest)
		return
	}
	client, err := upgrade(w)
	if err != nil {
		return
	}
	defer client.Close()
	frames := &frameWriter{w: client}
	exit := s.runCommand(request, client, frames)
	payload, err := json.Marshal(exit)
	if err != nil {
		return
	}
	_ = frames.write(control.Exited, payload)
}

func (s *server) runCommand(request control.Run, client io.Reader, frames *frameWriter) control.Exit {
	var pipes pipes
	defer pipes.close()
	stdin, input := pipes.open()
	output, stdout := pipes.open()
	errput, stderr := pipes.open()
	if pipes.err != nil {
		return failed(pipes.err)
	}
	child, err := s.children.start(request.Argv, request.Env, request.Dir, [3]*os.File{stdin, stdout, stderr})
	if err != nil {
		return failed(err)
	}
	stdin.Close()
	stdout.Close()
	stderr.Close()
	if !request.Stdin {
		input.Close()
	}

	var outputs sync.WaitGroup
	ended := make(chan struct{})
	outputs.Go(func() { frames.copy(control.Stdout, output, ended) })
	outputs.Go(func() { frames.copy(control.Stderr, errput, ended) })
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		feed(client, input, frames)
	}()

	var status syscall.WaitStatus
	select {
	case status = <-child.exited:
	case <-gone:
		child.kill(syscall.SIGKILL)
		status = <-child.exited
	}
	close(ended)
	deadline := time.Now().Add(lateOutput)
	_ = output.SetReadDeadline(deadline)
	_ = errput.SetReadDeadline(deadline)
	outputs.Wait()
	return control.Exit{Code: exitCode(status)}
}

func failed(err error) control.Exit {
	return control.Exit{Error: err.Error(), Absent: errors.Is(err, fs.ErrNotExist)}
}

// feed passes the client's input on. It returns when the client has gone.
func feed(client io.Reader, input *os.File, frames *frameWriter) {
	chunks := make(chan []byte, 1)
	defer close(chunks)
	go func() {
		defer input.Close()
		for chunk := range chunks {
			if len(chunk) == 0 {
				return
			}
			// A command that reads no further still gets to its end, and the
			// client to the end of its input.
			_, _ = input.Write(chunk)
			if frames.write(control.StdinTaken, nil) != nil {
				return
			}
		}
	}()
	for {
		kind, payload, err := control.ReadFrame(client)
		if err != nil || kind != control.Stdin {
			return
		}
		select {
		case chunks <- payload:
		default:
			return // the client does not keep to the protocol
		}
	}
}

// frameWriter lets several goroutines write frames.
type frameWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (f *frameWriter) write(kind control.Kind, payload []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return control.WriteFrame(f.w, kind, payload)
}

// copy passes a command's output on until its end, and what is left of it
// after the command has ended.
func (f *frameWriter) copy(kind control.Kind, from *os.File, ended <-chan struct{}) {
	buffer := make([]byte, pipeSize)
	for left := pipeSize; left > 0; {
		late := false
		select {
		case <-ended:
			late = true
			_ = from.SetReadDeadline(time.Now().Add(lateOutput))
		default:
		}
		n, err := from.Read(buffer)
		if n > 0 && f.write(kind, buffer[:n]) != nil || err != nil {
			return
		}
		if late {
			left -= n
		}
	}
}

// pipes are opened one after the other and closed together.
type pipes struct {
	files []*os.File
	err   error
}

func (p *pipes) open() (read, write *os.File) {
	read, write, err := os.Pipe()
	if err != nil {
		p.err = err
		return nil, nil
	}
	p.files = append(p.files, read, write)
	return read, write
}

func (p *pipes) close() {
	for _, file := range p.files {
		file.Close()
	}
}
