package supervisor

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
)

// TestNoKeeper refuses services where the init is none that the testbed knows,
// and has nothing to stop there.
func TestNoKeeper(t *testing.T) {
	k := noKeeper{"openrc-init"}
	err := k.Start(host.Service{Name: "nebula", Argv: []string{"true"}})
	if err == nil || !strings.Contains(err.Error(), `init is "openrc-init", and services need systemd`) {
		t.Errorf("start: %v", err)
	}
	if _, err := k.Status("nebula"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("status: %v", err)
	}
	if err := k.Stop("nebula"); err != nil {
		t.Errorf("stop: %v", err)
	}
}

func TestOutput(t *testing.T) {
	c := newChildren(environment)
	output, err := c.output("sh", "-c", "printf out; printf err >&2")
	if err != nil || string(output) != "out" {
		t.Errorf("got %q, %v", output, err)
	}
	_, err = c.output("sh", "-c", "echo why >&2; exit 3")
	var exit *host.ExitError
	if !errors.As(err, &exit) || exit.Code != 3 || exit.Stderr != "why\n" {
		t.Errorf("got %v", err)
	}
	if _, err := c.output("no-such-program"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
