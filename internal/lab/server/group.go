package server

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	tailLines = 15
	askEvery  = 50 * time.Millisecond

	// The API server alone takes longer: it waits for clients that are gone.
	stopGrace = time.Second
)

// group runs components that belong together: when one ends, all have to.
type group struct {
	log       io.Writer
	processes []*process
	ended     chan *process
}

type process struct {
	name string
	cmd  *exec.Cmd
	out  *lines
	done chan struct{}
	err  error // after done is closed
}

func newGroup(log io.Writer) *group {
	return &group{log: log, ended: make(chan *process, 16)}
}

// start runs a component. The kernel ends it with the thread that started it,
// so the caller is locked to a thread that lives as long as the group.
func (g *group) start(c component) error {
	path := c.argv[0]
	if path == c.name {
		path = "/proc/self/exe"
	}
	p := &process{name: c.name, out: &lines{name: c.name, log: g.log}, done: make(chan struct{})}
	if path == c.argv[0] {
		p.cmd = exec.Command(path, c.argv[1:]...)
	} else {
		p.cmd = exec.Command(path, c.argv...)
		p.cmd.Args[0] = "k3s"
	}
	p.cmd.Env = append(os.Environ(), c.env...)
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	// Pods' shims may hold the output open; they are none of the group.
	p.cmd.WaitDelay = time.Second
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", c.name, err)
	}
	g.processes = append(g.processes, p)
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
		g.ended <- p
	}()
	return nil
}

// await asks until the answer is no error, a component ends, or ctx does.
func (g *group) await(ctx context.Context, what string, ask func(context.Context) error) error {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w (last: %w)", what, ctx.Err(), err)
		case p := <-g.ended:
			return p.failure()
		case <-tick.C:
		}
	}
}

// failure tells how a component ended, with the last lines it wrote.
func (p *process) failure() error {
	how := "it ended"
	if p.err != nil {
		how = p.err.Error()
	}
	return fmt.Errorf("%s: %s; its last lines:\n%s", p.name, how, p.out.tail())
}

// stop ends the components and leaves the pods. All are told at once: each one
// is made for the sudden end of the others.
func (g *group) stop() {
	for _, p := range g.processes {
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails when it has ended
	}
	late := time.AfterFunc(stopGrace, func() {
		for _, p := range g.processes {
			if p.cmd.Process.Kill() == nil {
				fmt.Fprintf(g.log, "[k3s] %s did not end within %s and was killed\n", p.name, stopGrace)
			}
		}
	})
	defer late.Stop()
	for _, p := range g.processes {
		<-p.done
	}
}

// lines passes a component's output on, each line with the component's name,
// and keeps the last ones.
type lines struct {
	name string
	log  io.Writer

	mu   sync.Mutex
	part []byte
	last []string
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.part = append(l.part, b...)
	for {
		line, rest, ok := bytes.Cut(l.part, []byte("\n"))
		if !ok {
			return len(b), nil
		}
		l.part = rest
		l.last = append(l.last, string(line))
		if len(l.last) > tailLines {
			l.last = l.last[1:]
		}
		fmt.Fprintf(l.log, "[%s] %s\n", l.name, line)
	}
}

func (l *lines) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.last, "\n")
}
