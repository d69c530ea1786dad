// Package shape makes the kernel of a host carry out its part of a link: an
// HTB discipline at the root of the device, one class with a netem leaf for
// each link, and filters that send to it what goes to the peer's addresses and
// nothing else. What comes from them goes through an ifb device where asked.
//
// It runs on the host, as the agent's role "shape". The root's handle says
// whose it is; what the kernel does not tell again is kept in a record below
// /run, which a reboot empties together with the kernel. A change is taken back
// unless who asked for it says, over the changed network, that it shall stay.
package shape

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/link"
)

const usage = `usage:
  testbed-agent shape set DURATION             do the part that is read; take it back unless "keep" is read within DURATION
  testbed-agent shape remove LINK DURATION     undo a part, in the same way
  testbed-agent shape show LINK                print what is done for a link
  testbed-agent shape path ADDRESS             print where packets to an address leave
  testbed-agent shape lacks                    print what keeps the host from doing the part that is read
  testbed-agent shape clear                    undo everything`

// recordPath is the record of a host.
const recordPath = "/run/testbed/links.json"

// Command is the agent's role "shape".
func Command(ctx context.Context, args []string) error {
	s := shaper{ctx: ctx, record: recordPath}
	word := ""
	if len(args) > 0 {
		word = args[0]
	}
	switch {
	case word == "set" && len(args) == 2:
		var part link.Part
		input := bufio.NewReader(os.Stdin)
		if err := readLine(input, &part); err != nil {
			return err
		}
		return s.guarded(part.Link, args[1], input, func() error { return s.set(part) })
	case word == "remove" && len(args) == 3:
		return s.guarded(args[1], args[2], bufio.NewReader(os.Stdin), func() error { return s.remove(args[1]) })
	case word == "show" && len(args) == 2:
		return s.show(args[1])
	case word == "path" && len(args) == 2:
		return s.path(args[1])
	case word == "lacks" && len(args) == 1:
		var part link.Part
		if err := readLine(bufio.NewReader(os.Stdin), &part); err != nil {
			return err
		}
		return s.lacks(part)
	case word == "clear" && len(args) == 1:
		return Clear(ctx, func(id string) { fmt.Println("removed link " + id) })
	case word == "guard" && len(args) == 1: // started by guarded
		return s.guard(os.Stdin)
	case word == "rehearse" && len(args) == 1: // started by lacks and set
		return s.rehearse(os.Stdin)
	}
	return errors.New(usage)
}

func readLine(input *bufio.Reader, value any) error {
	line, err := input.ReadBytes('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := json.Unmarshal(line, value); err != nil {
		return fmt.Errorf("read what to do: %w", err)
	}
	return nil
}

// printed writes a value as one line of JSON.
func printed(value any) error { return json.NewEncoder(os.Stdout).Encode(value) }

// show prints what is done for a link, null when it is nothing.
func (s *shaper) show(id string) error {
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	shaped, err := s.observe(id)
	if errors.Is(err, fs.ErrNotExist) {
		return printed(nil)
	}
	if err != nil {
		return err
	}
	return printed(shaped)
}

func (s *shaper) path(address string) error {
	to, err := netip.ParseAddr(address)
	if err != nil {
		return err
	}
	found, err := s.route(to)
	if err != nil {
		return err
	}
	found.SSHPort = sshPort()
	return printed(found)
}

// Clear undoes every link of this host, and tells report each. It goes on after
// an error.
func Clear(ctx context.Context, report func(id string)) error {
	s := shaper{ctx: ctx, record: recordPath}
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	r, err := s.load()
	if err != nil {
		return err
	}
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(r.Links)) {
		if err := s.remove(id); err != nil {
			errs = append(errs, fmt.Errorf("remove link %s: %w", id, err))
			continue
		}
		report(id)
	}
	return errors.Join(errs...)
}

// undo is what a guard does when a change was not kept: it makes a link what
// it was before.
type undo struct {
	Link   string        `json:"link"`
	Before *link.Part    `json:"before"` // nil for nothing
	Within time.Duration `json:"within"` // nanoseconds
}
