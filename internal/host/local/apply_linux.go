package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/agent"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/cgroup"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/datadir"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/local/layout"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/process"
)

// Check says what this machine lacks for running local hosts.
func Check() error {
	if os.Geteuid() != 0 {
		return errors.New("local hosts need root; run as root, for example with sudo")
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		return fmt.Errorf("local hosts need /dev/net/tun; load the kernel's module with: modprobe tun: %w", err)
	}
	hierarchies, err := cgroup.Mounted()
	if err != nil {
		return err
	}
	return hierarchies.Check()
}

// Create makes a host that does not exist, or exists half-made. It is an
// fs.ErrExist when there is a whole one.
func (o *Opener) Create(ctx context.Context, spec Spec) (Status, error) {
	return o.make(ctx, spec, func(found record) error {
		if found.Made {
			return fmt.Errorf("make host %s: it was made before: %w", spec.Name, fs.ErrExist)
		}
		return nil
	})
}

// Apply makes a host as specified: it changes the networks of a living one and
// makes a new one in place of one that has ended or is half-made.
func (o *Opener) Apply(ctx context.Context, spec Spec) (Status, error) {
	return o.make(ctx, spec, func(record) error { return nil })
}

// make makes the host unless permit, given a living host, has an objection. A
// new host that cannot be completed is removed.
func (o *Opener) make(ctx context.Context, spec Spec, permit func(record) error) (status Status, err error) {
	if err := spec.check(); err != nil {
		return Status{}, err
	}
	if err := Check(); err != nil {
		return Status{}, err
	}
	unlock, err := o.dir.Make(ctx, o.dir.Host(spec.Name))
	if err != nil {
		return Status{}, fmt.Errorf("make host %s: %w", spec.Name, err)
	}
	defer unlock()
	found, err := o.living(spec.Name)
	switch {
	case err == nil:
		if err := permit(found); err != nil {
			return Status{}, err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return Status{}, err
	}
	if !found.Made {
		defer func() {
			if err != nil {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonTime)
				defer cancel()
				err = errors.Join(err, o.remove(ctx, spec.Name))
			}
		}()
		if found, err = o.start(ctx, spec); err != nil {
			return Status{}, fmt.Errorf("make host %s: %w", spec.Name, err)
		}
	}
	if err := o.connect(ctx, found, spec.Networks); err != nil {
		return Status{}, err
	}
	if status, err = o.observe(ctx, found); err != nil {
		return Status{}, err
	}
	found.Made = true
	return status, found.save(o.dir)
}

// abandonTime is for the removal of a host that was not completed, which may
// be because the time for making it was over.
const abandonTime = 10 * time.Second

// start makes a fresh host in place of what is there.
func (o *Opener) start(ctx context.Context, spec Spec) (record, error) {
	folder := o.dir.Host(spec.Name)
	if err := end(ctx, o.dir, spec.Name); err != nil {
		return record{}, err
	}
	if err := empty(folder); err != nil {
		return record{}, err
	}
	program, err := agent.Install(o.dir)
	if err != nil {
		return record{}, err
	}
	hierarchies, err := cgroup.Mounted()
	if err != nil {
		return record{}, err
	}
	group := GroupPath(o.dir, spec.Name)
	if err := hierarchies.Create(group); err != nil {
		return record{}, err
	}
	// A link in its path would make the host hide another folder.
	dir, err := filepath.EvalSymlinks(string(o.dir))
	if err != nil {
		return record{}, err
	}
	setup, err := json.Marshal(layout.Setup{Name: spec.Name, DataDir: datadir.Dir(dir), Cgroup: group, Addresses: spec.addresses()})
	if err != nil {
		return record{}, err
	}
	found := record{Name: spec.Name}
	daemon := process.Daemon{
		Argv:       []string{program, "init", string(setup)},
		Log:        filepath.Join(folder, "init.log"),
		Namespaces: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
	}
	_, err = daemon.Start(ctx, func(id process.ID) error {
		found.Init = id
		return found.save(o.dir)
	})
	return found, err
}

// empty removes everything in a folder but the folder.
func empty(folder string) error {
	entries, err := os.ReadDir(folder)
	for _, entry := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(folder, entry.Name())))
	}
	return err
}

// Observe returns what a living host is. It is an fs.ErrNotExist when there is
// none, and for one whose init has ended.
func (o *Opener) Observe(ctx context.Context, name string) (Status, error) {
	found, err := o.living(name)
	if err != nil {
		return Status{}, fmt.Errorf("observe host %s: %w", name, err)
	}
	return o.observe(ctx, found)
}

func (o *Opener) observe(ctx context.Context, found record) (Status, error) {
	facts, err := newClient(o.dir, found).Facts(ctx)
	if err != nil {
		return Status{}, err
	}
	networks, err := o.networks(ctx, found)
	if err != nil {
		return Status{}, err
	}
	return Status{Spec: Spec{Name: found.Name, Networks: networks}, Facts: facts}, nil
}

// Remove ends a host and removes all it left. An absent host is no error.
func (o *Opener) Remove(ctx context.Context, name string) error {
	unlock, err := o.dir.Lock(ctx, o.dir.Host(name))
	if errors.Is(err, fs.ErrNotExist) {
		// Its folder may have been removed by hand, and the host be alive.
		return end(ctx, o.dir, name)
	}
	if err != nil {
		return fmt.Errorf("remove host %s: %w", name, err)
	}
	defer unlock()
	return o.remove(ctx, name)
}

// remove ends a host and removes its folder, of which the caller holds the
// lock.
func (o *Opener) remove(ctx context.Context, name string) error {
	if err := end(ctx, o.dir, name); err != nil {
		return err
	}
	if err := o.dir.Drop(ctx, o.dir.Host(name)); err != nil {
		return fmt.Errorf("remove host %s: %w", name, err)
	}
	return nil
}
