package ssh

import (
	"context"
	"fmt"
	"path"
	"time"

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

// removeTime is for the agent to end and to take itself along.
const removeTime = 20 * time.Second

// Remove removes from a host what the provider needed for working on it, and
// forgets how it is reached. Services and their files are not of this; they are
// removed before. The agent stays for those that are still there.
func (o *Opener) Remove(ctx context.Context, target Target) error {
	h := o.open(target)
	// The last agent that changed something takes itself along when it ends,
	// if it leaves nothing: so it is made to be one that has.
	if err := h.Remove(ctx, path.Join(agents, "none")); err != nil {
		return err
	}
	h.close()
	if err := o.awaitRemoval(ctx, target); err != nil {
		return fmt.Errorf("remove the agent of %s: %w", target, err)
	}
	return o.Forget(target)
}

// awaitRemoval waits until no agent is left on the host or it is clear that
// there is work for it.
func (o *Opener) awaitRemoval(ctx context.Context, target Target) error {
	login, err := o.login(ctx, target)
	if err != nil {
		return unreachable(err)
	}
	defer login.Close()
	for deadline := time.Now().Add(removeTime); ; {
		found, err := login.probe(ctx)
		if err != nil || len(found.installed) == 0 || time.Now().After(deadline) {
			return err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Forget forgets how a host is reached.
func (o *Opener) Forget(target Target) error {
	o.mu.Lock()
	delete(o.said, target)
	o.mu.Unlock()
	return o.config.Records.forget(target)
}
