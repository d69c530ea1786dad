package shape

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/link"
)

// guarded makes a change to a link, prints what is done for it then, and waits
// for the word that keeps it. A second process, which lives on when this one is
// killed together with the connection, takes the change back without that word.
func (s *shaper) guarded(id, within string, input *bufio.Reader, change func() error) error {
	patience, err := time.ParseDuration(within)
	if err != nil {
		return err
	}
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	locked := true
	defer func() {
		if locked {
			unlock()
		}
	}()
	r, err := s.load()
	if err != nil {
		return err
	}
	before := undo{Link: id, Within: patience}
	if known, ok := r.Links[id]; ok {
		before.Before = &known.Part
	}
	guard, err := startGuard(before)
	if err != nil {
		return fmt.Errorf("start the guard: %w", err)
	}
	if err := change(); err != nil {
		s.ctx = context.WithoutCancel(s.ctx)
		return errors.Join(err, s.takeBack(before), guard.end(true))
	}
	shaped, err := s.observe(id)
	if errors.Is(err, fs.ErrNotExist) {
		err = printed(nil)
	} else if err == nil {
		err = printed(shaped)
	}
	unlock()
	locked = false
	if err == nil && await(s.ctx, input, patience) {
		return guard.end(true)
	}
	return errors.Join(err, guard.end(false), fmt.Errorf("the change was taken back, since nobody said within %s that it shall stay", patience))
}

// await tells whether the word that keeps a change comes in time.
func await(ctx context.Context, input *bufio.Reader, patience time.Duration) bool {
	kept := make(chan bool, 1)
	go func() {
		line, _ := input.ReadString('\n')
		kept <- strings.TrimSpace(line) == link.Keep
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case k := <-kept:
		return k
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// guardian is the second process, and the pipe that it reads.
type guardian struct {
	process *exec.Cmd
	input   io.WriteCloser
}

func startGuard(u undo) (*guardian, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(u)
	if err != nil {
		return nil, err
	}
	process := exec.Command(self, "shape", "guard")
	process.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // whoever ends this process's group leaves it alone
	input, err := process.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := process.Start(); err != nil {
		return nil, err
	}
	_, err = input.Write(append(text, '\n'))
	return &guardian{process, input}, err
}

// end lets the guard end, after taking the change back unless it is kept.
func (g *guardian) end(keep bool) error {
	var err error
	if keep {
		_, err = io.WriteString(g.input, link.Keep+"\n")
	}
	return errors.Join(err, g.input.Close(), g.process.Wait())
}

// guard waits for the word, and takes the change back when the pipe ends or
// the time is over without it.
func (s *shaper) guard(stdin io.Reader) error {
	s.ctx = context.WithoutCancel(s.ctx)
	input := bufio.NewReader(stdin)
	var u undo
	if err := readLine(input, &u); err != nil {
		return err
	}
	if await(s.ctx, input, u.Within+time.Second) {
		return nil
	}
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	return s.takeBack(u)
}

// takeBack makes a link what it was.
func (s *shaper) takeBack(u undo) error {
	if u.Before == nil {
		return s.remove(u.Link)
	}
	return s.set(*u.Before)
}
