package ssh

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/preflight"
)

// Spec is a host that is to be worked on.
type Spec struct {
	Target Target
	Record Record
	Needs  []preflight.Need // what it is to be good for
}

// Status is what was found of a host.
type Status struct {
	Target Target
	Facts  host.Facts
}

// Check connects to a host as the specification says, and compares it with
// what it is to be good for. It remembers nothing. What the host lacks is a
// preflight.Error.
func (o *Opener) Check(ctx context.Context, spec Spec) (Status, error) {
	if spec.Record.HostKey != "" {
		if err := CheckHostKey(spec.Record.HostKey); err != nil {
			return Status{}, err
		}
	}
	o.say(spec.Target, spec.Record)
	status, err := o.Observe(ctx, spec.Target)
	if err != nil {
		return Status{}, err
	}
	missing := preflight.Check(status.Facts, spec.Needs...)
	return status, preflight.Problems([]preflight.Result{{URL: spec.Target.URL(), Facts: status.Facts, Missing: missing}})
}

// Apply checks a host, and remembers how it is reached for everybody who opens
// it by its URL.
func (o *Opener) Apply(ctx context.Context, spec Spec) (Status, error) {
	status, err := o.Check(ctx, spec)
	if err != nil {
		return Status{}, err
	}
	return status, o.config.Records.save(spec.Target, spec.Record)
}

// Remember makes later runs of the provider reach a host as the record says,
// for example after the folder of the testbed was lost.
func (o *Opener) Remember(target Target, record Record) error {
	o.say(target, record)
	return o.config.Records.save(target, record)
}

// Observe returns what a host is.
func (o *Opener) Observe(ctx context.Context, target Target) (Status, error) {
	facts, err := o.open(target).Facts(ctx)
	return Status{Target: target, Facts: facts}, err
}

// Remove removes from a host what the provider needed for working on it, and
// makes sure that it is gone. Services and their files are not of this; they
// are removed before.
func (o *Opener) Remove(ctx context.Context, target Target) error {
	h := o.open(target)
	for _, folder := range []string{agents, lockFile} {
		if err := h.Remove(ctx, folder); err != nil {
			return err
		}
	}
	if _, err := h.Read(ctx, agents); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the agents of %s: %s is still there", target, agents)
	}
	h.close()
	return o.Forget(target)
}

// Forget forgets how a host is reached.
func (o *Opener) Forget(target Target) error {
	o.mu.Lock()
	delete(o.said, target)
	o.mu.Unlock()
	return o.config.Records.forget(target)
}

// lockFile is where the agent on a host notes who changes the host.
const lockFile = "/run/testbed-agent.lock"
