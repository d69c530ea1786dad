// Package cleanup ends and removes everything of a testbed that lives on this
// machine, knowing nothing but the testbed's folder: the data folder where
// Terraform ran, or that of the agents on a machine that it reached over SSH.
// It is the way out when the state that Terraform kept is lost.
package cleanup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/agent/ledger"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/cgroup"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/datadir"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/local"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/process"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/underlay"
)

// Command is the "cleanup" command. Its argument is the testbed's folder.
func Command(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("say whose folder: testbed-agent cleanup FOLDER, for example /var/lib/testbed, or " + ledger.Dir + " on a machine that was reached over SSH")
	}
	dir, err := filepath.Abs(args[0])
	if err != nil {
		return err
	}
	if dir == ledger.Dir {
		return removeFromMachine(ctx, os.Stdout)
	}
	return Remove(ctx, datadir.Dir(dir), os.Stdout)
}

// Remove removes the testbed and says what it removes. It goes on after an
// error, to remove as much as it can.
func Remove(ctx context.Context, dir datadir.Dir, report io.Writer) error {
	c := cleaner{ctx: ctx, dir: dir, report: report}
	hosts, err := dir.Hosts()
	c.note(err)
	for _, name := range hosts {
		c.remove("host "+name, func() error { return local.NewOpener(string(dir)).Remove(ctx, name) })
	}
	networks, err := dir.Networks()
	c.note(err)
	for _, name := range networks {
		c.remove("network "+name, func() error { return underlay.Remove(ctx, dir, name) })
	}
	c.groups()
	c.daemons()
	c.files()
	if len(c.errs) == 0 && !c.removed {
		fmt.Fprintf(report, "there is nothing of a testbed in %s\n", dir)
	}
	return errors.Join(c.errs...)
}

type cleaner struct {
	ctx     context.Context
	dir     datadir.Dir
	report  io.Writer
	removed bool
	errs    []error
}

func (c *cleaner) note(err error) {
	if err != nil {
		c.errs = append(c.errs, err)
	}
}

func (c *cleaner) remove(what string, remove func() error) {
	if err := remove(); err != nil {
		c.note(err)
		return
	}
	c.removed = true
	fmt.Fprintf(c.report, "removed %s\n", what)
}

// groups ends what still runs in control groups of hosts whose folders were
// removed by hand, which are whole hosts.
func (c *cleaner) groups() {
	hierarchies, err := cgroup.Mounted()
	if err != nil {
		c.note(err)
		return
	}
	group := local.GroupPath(c.dir, "")
	if hierarchies.Exists(group) {
		c.remove("cgroup "+group, func() error { return hierarchies.Remove(c.ctx, group) })
	}
}

// daemons ends those whose folders were removed by hand: what runs the
// testbed's agents.
func (c *cleaner) daemons() {
	programs, err := filepath.Glob("/proc/[0-9]*/exe")
	c.note(err)
	for _, program := range programs {
		path, err := os.Readlink(program)
		if err != nil || !strings.HasPrefix(path, c.dir.Agents()+"/") {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(program)))
		if err != nil || pid == os.Getpid() {
			continue
		}
		id, err := process.Of(pid)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has ended meanwhile
		}
		c.remove(fmt.Sprintf("process %d", pid), func() error {
			if err != nil {
				return err
			}
			return id.Kill(c.ctx)
		})
	}
}

// files removes the folders that a testbed makes, and its own folder unless it
// holds something else.
func (c *cleaner) files() {
	for _, name := range datadir.Folders {
		path := filepath.Join(string(c.dir), name)
		if _, err := os.Lstat(path); err == nil {
			c.remove(path, func() error { return os.RemoveAll(path) })
		}
	}
	if os.Remove(string(c.dir)) == nil {
		c.removed = true
		fmt.Fprintf(c.report, "removed %s\n", c.dir)
	}
}
