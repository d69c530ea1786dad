package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/datadir"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/netem"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/process"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/underlay"
)

const usage = `usage:
  testbed-agent underlay run DIR                                     be the daemon of the network in this folder
  testbed-agent underlay show DATA_DIR NETWORK                       print hosts, links and counters
  testbed-agent underlay set DATA_DIR NETWORK FROM TO [PROFILE]      set what happens to packets from one host to another;
                                                                     PROFILE is JSON, for example '{"delay":"5ms"}'`

// Command is the agent's role "underlay".
func Command(ctx context.Context, args []string) error {
	switch {
	case len(args) == 2 && args[0] == "run":
		return runDetached(ctx, args[1])
	case len(args) == 3 && args[0] == "show":
		return show(ctx, os.Stdout, args[1], args[2])
	case (len(args) == 5 || len(args) == 6) && args[0] == "set":
		return set(ctx, args[1:])
	}
	return errors.New(usage)
}

// runDetached is the daemon that package underlay starts.
func runDetached(ctx context.Context, dir string) error {
	if err := process.Await(); err != nil {
		return err
	}
	reported := false
	err := Run(ctx, dir, func() {
		process.Report(nil)
		reported = true
	})
	if err != nil && !reported {
		process.Report(err)
	}
	return err
}

func connect(dataDir, network string) (*underlay.Client, error) {
	dir, err := filepath.Abs(dataDir)
	if err != nil {
		return nil, err
	}
	return underlay.Open(datadir.Dir(dir), network)
}

func show(ctx context.Context, w io.Writer, dataDir, network string) error {
	client, err := connect(dataDir, network)
	if err != nil {
		return err
	}
	status, err := client.Status(ctx)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "network %s, cidr %s, mtu %d, seed %d, process %d\n\n", status.Spec.Name, status.Spec.CIDR, status.Spec.MTU, status.Spec.Seed, status.PID)
	fmt.Fprintln(table, "HOST\tADDRESS\tDEVICE\tNAMESPACE")
	for _, port := range status.Ports {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", port.Host, port.Address, port.Device, port.Namespace)
	}
	fmt.Fprintln(table, "\nFROM\tTO\tLINK")
	for _, link := range status.Links {
		fmt.Fprintf(table, "%s\t%s\t%s\n", link.From, link.To, netem.Profile{Forward: link.Direction, Reverse: link.Direction}.JSON())
	}
	fmt.Fprintln(table, "\nFROM\tTO\tRECEIVED\tDELIVERED\tBYTES\tLOST\tDROPPED\tDUPLICATED\tCORRUPTED\tREORDERED\tUNREACHABLE\tWAITING")
	for _, c := range status.Counters {
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", c.From, c.To, c.Received, c.Delivered, c.Bytes, c.Lost, c.Dropped, c.Duplicated, c.Corrupted, c.Reordered, c.Unreachable, c.Waiting)
	}
	return table.Flush()
}

// set changes one direction by hand, as the profile's forward side says.
func set(ctx context.Context, args []string) error {
	client, err := connect(args[0], args[1])
	if err != nil {
		return err
	}
	if len(args) == 4 {
		return client.SetLink(ctx, args[2], args[3], nil)
	}
	profile, err := netem.Parse([]byte(args[4]))
	if err != nil {
		return err
	}
	return client.SetLink(ctx, args[2], args[3], &profile.Forward)
}
