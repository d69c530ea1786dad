// Package daemon is the agent's role "nebula": the Nebula daemon of one host
// and the maker of its private key. The configuration is a file that
// internal/nebula renders; the daemon reads it again on SIGHUP and tells on a
// socket what it has read and which lighthouses answer.
package daemon

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	nebulalib "github.com/slackhq/nebula"
	"github.com/slackhq/nebula/config"
	"github.com/slackhq/nebula/logging"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/nebula"
)

// Command is the role: "run -config FILE" or "keygen -curve CURVE -key FILE".
func Command(ctx context.Context, args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case "run":
			return run(ctx, args[1:])
		case "keygen":
			return keygen(args[1:], os.Stdout)
		}
	}
	return fmt.Errorf("want run -config FILE, or keygen -curve %s -key FILE", strings.Join(nebula.Curves, "|"))
}

// run serves the overlay until ctx ends or the device or the socket breaks.
func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("nebula run", flag.ContinueOnError)
	path := flags.String("config", filepath.Join(nebula.Dir, "config.yml"), "configuration `file`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	l := logging.NewLogger(os.Stdout)
	c := config.NewC(l)
	d := &daemon{}
	// What a file says is noted before Nebula reads it: should it change in
	// between, the note is too old rather than too new, and one reload more
	// makes it right.
	if err := d.note(*path); err != nil {
		return err
	}
	d.fixed = d.read.Fixed
	if err := c.Load(*path); err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	control, err := nebulalib.Main(c, false, "", l, nil)
	if err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	d.control = control
	// Nebula calls back in the order of registration, so all of it has read
	// the files by then.
	c.RegisterReloadCallback(func(*config.C) {
		if err := d.note(*path); err != nil {
			l.Error("reload", "error", err)
		}
	})
	stop := context.AfterFunc(ctx, control.Stop)
	defer stop()
	if err := control.Start(); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	served := make(chan error, 1)
	go func() {
		err := d.serve(control.Context(), nebula.StatusSocket)
		control.Stop() // a daemon that tells nothing would look as if it were down
		served <- err
	}()
	err = control.Wait()
	control.Stop()
	return errors.Join(err, <-served)
}
