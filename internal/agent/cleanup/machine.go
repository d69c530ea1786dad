package cleanup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/agent/ledger"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/agent/systemd"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/k3s/sweep"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/link/shape"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/nebula"
)

// removeFromMachine removes all that a testbed has on a machine with an init of
// its own: links by their record, services by their units, and files by the
// ledger.
func removeFromMachine(ctx context.Context, report io.Writer) error {
	c := cleaner{ctx: ctx, dir: ledger.Dir, report: report}
	c.note(shape.Clear(ctx, func(link string) {
		c.removed = true
		fmt.Fprintf(report, "removed link %s\n", link)
	}))
	services, err := systemd.Names()
	c.note(err)
	manager := systemd.Manager{Run: func(argv ...string) ([]byte, error) { return run(ctx, argv) }}
	for _, name := range services {
		c.remove("service "+name, func() error { return manager.Stop(name) })
	}
	for _, name := range services {
		switch name {
		case "k3s", "k3s-agent":
			c.remove("what k3s left", func() error { return sweep.Command(ctx, nil) })
		case "nebula":
			c.remove(nebula.Dir, func() error { return os.RemoveAll(nebula.Dir) })
		}
	}
	own := ledger.Ledger(ledger.Dir)
	c.note(own.Remove(func(path string) {
		c.removed = true
		fmt.Fprintf(report, "removed %s\n", path)
	}))
	if len(c.errs) == 0 {
		if _, err := os.Lstat(ledger.Dir); err == nil {
			c.remove(ledger.Dir, func() error { return os.RemoveAll(ledger.Dir) })
		}
	}
	if len(c.errs) == 0 && !c.removed {
		fmt.Fprintln(report, "there is nothing of a testbed on this machine")
	}
	return errors.Join(c.errs...)
}

func run(ctx context.Context, argv []string) ([]byte, error) {
	var complaint strings.Builder
	command := exec.CommandContext(ctx, argv[0], argv[1:]...)
	command.Stderr = &complaint
	output, err := command.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = &host.ExitError{Argv: argv, Code: exit.ExitCode(), Stderr: complaint.String()}
	}
	return output, err
}
