package scaffold

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/preflight"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/ssh"
)

const usage = `Usage: terraform-provider-testbed new [flags] LIGHTHOUSE CALLER [CALLER...] SERVER

Checks hosts that are reached by SSH and writes an experiment for them: an
overlay with a lighthouse on the first host, a site with a cluster on each of
the others, and a run that calls functions of the last site from the others.

A host is [USER@]NAME[:PORT], where NAME is an address, a DNS name or a Host of
~/.ssh/config. Where the other hosts reach it at another address than SSH does,
that follows with a comma: pi@gateway:2201,192.168.1.7. A file has one host on
each line; lines that begin with # are left out.

`

// Command carries out "new [flags] HOST...": it checks the hosts, writes the
// experiment's files and prints what to do next. It writes nothing when a host
// lacks something or a file is there already.
func Command(ctx context.Context, args []string, stdout io.Writer, hosts host.Opener) error {
	flags := flag.NewFlagSet("new", flag.ContinueOnError)
	flags.SetOutput(stdout)
	flags.Usage = func() { fmt.Fprint(stdout, usage); flags.PrintDefaults() }
	file := flags.String("hosts", "", "file with further hosts, before those that are arguments")
	out := flags.String("out", ".", "folder to write to")
	names := flags.String("sites", "", "names of the sites with commas between them; by default edge and cloud, or edge-1, edge-2 and so on and cloud")
	scenarios := flags.String("scenarios", "local,edge,cloud", "NAME or NAME=RTT/JITTER/LOSS, with commas between them; jitter and a loss in percent can be left out")
	functions := flags.String("functions", "hello-world,payload-echo=102400", "hello-world and payload-echo=BYTES, with commas between them")
	unchecked := flags.Bool("skip-checks", false, "do not ask the hosts anything; each then needs an address of its own")
	var given []string
	for {
		switch err := flags.Parse(args); {
		case errors.Is(err, flag.ErrHelp):
			return nil
		case err != nil:
			return err
		}
		if flags.NArg() == 0 {
			break
		}
		given, args = append(given, flags.Arg(0)), flags.Args()[1:]
	}
	listed, err := readHosts(*file)
	if err != nil {
		return err
	}
	given = append(listed, given...)
	if len(given) < 3 {
		flags.Usage()
		return fmt.Errorf("%d hosts: an experiment needs three at least, for a lighthouse, a caller and a server", len(given))
	}
	e, err := plan(given, *names, *scenarios, *functions)
	if err != nil {
		return err
	}
	if !*unchecked {
		if err := e.check(ctx, stdout, hosts); err != nil {
			return err
		}
	}
	if err := e.addressed(); err != nil {
		return err
	}
	files, err := e.Files()
	if err != nil {
		return err
	}
	if err := write(*out, files); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintln(stdout, "wrote", filepath.Join(*out, name))
	}
	_, err = fmt.Fprintf(stdout, "\nNext, in %s: terraform init, then terraform apply (or tofu).\n", *out)
	return err
}

// readHosts reads a file with a host on each line.
func readHosts(path string) ([]string, error) {
	if path == "" {
		return nil, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the hosts: %w", err)
	}
	defer file.Close()
	var hosts []string
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if text := strings.TrimSpace(lines.Text()); text != "" && !strings.HasPrefix(text, "#") {
			hosts = append(hosts, text)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the hosts: %w", err)
	}
	return hosts, nil
}

// plan makes an experiment of what was given.
func plan(given []string, names, scenarios, functions string) (e Experiment, err error) {
	if e.Lighthouse, err = parseHost(given[0]); err != nil {
		return e, err
	}
	sites := siteNames(len(given) - 1)
	if names != "" {
		sites = strings.Split(names, ",")
	}
	if len(sites) != len(given)-1 {
		return e, fmt.Errorf("%d names of sites for %d hosts: the first host is the lighthouse, each other one is a site", len(sites), len(given))
	}
	for i, text := range given[1:] {
		parsed, err := parseHost(text)
		if err != nil {
			return e, err
		}
		e.Sites = append(e.Sites, Site{Name: strings.TrimSpace(sites[i]), Host: parsed})
	}
	for _, text := range strings.Split(scenarios, ",") {
		scenario, err := ParseScenario(strings.TrimSpace(text))
		if err != nil {
			return e, err
		}
		e.Scenarios = append(e.Scenarios, scenario)
	}
	for _, text := range strings.Split(functions, ",") {
		function, err := ParseFunction(strings.TrimSpace(text))
		if err != nil {
			return e, err
		}
		e.Functions = append(e.Functions, function)
	}
	return e, nil
}

// parseHost reads [ssh://][USER@]NAME[:PORT][,ADDRESS].
func parseHost(text string) (Host, error) {
	name, address, given := strings.Cut(text, ",")
	name = strings.TrimSpace(name)
	if !strings.Contains(name, "://") {
		name = ssh.Scheme + name
	}
	target, err := ssh.Parse(name)
	if err != nil {
		return Host{}, fmt.Errorf("%w; write [USER@]NAME[:PORT], or with ,ADDRESS after it", err)
	}
	h := Host{URL: name}
	if given {
		if h.Underlay, err = netip.ParseAddr(strings.TrimSpace(address)); err != nil {
			return Host{}, fmt.Errorf("host %q: what follows the comma is no address", text)
		}
		return h, nil
	}
	if ip, err := netip.ParseAddr(target.Address); err == nil && !ip.IsLoopback() {
		h.Underlay = ip
	}
	return h, nil
}

// check asks all hosts at once whether they lack anything, and for the address
// of those whose address is not known.
func (e *Experiment) check(ctx context.Context, stdout io.Writer, hosts host.Opener) error {
	urls := []string{e.Lighthouse.URL}
	for _, site := range e.Sites {
		urls = append(urls, site.URL)
	}
	results := preflight.All(ctx, hosts, urls, func(url string) []preflight.Need {
		if url == e.Lighthouse.URL {
			return []preflight.Need{preflight.Overlay}
		}
		return preflight.Needs()
	})
	for _, result := range results {
		if result.OK() {
			fmt.Fprintf(stdout, "%s: %s, %s, Linux %s, %d CPUs, %d MB\n", result.URL, result.Facts.OS, result.Facts.Arch, result.Facts.Kernel, result.Facts.CPUs, result.Facts.Memory>>20)
		}
	}
	if err := preflight.Problems(results); err != nil {
		return fmt.Errorf("nothing was written, since hosts are not ready:\n%w", err)
	}
	for _, h := range e.all() {
		if h.Underlay.IsValid() {
			continue
		}
		address, err := defaultAddress(ctx, hosts, h.URL)
		if err != nil {
			return fmt.Errorf("find the address of %s: %w; write it after the host, with a comma between", h.URL, err)
		}
		h.Underlay = address
		fmt.Fprintf(stdout, "%s: the others reach it at %s, the address of its default route\n", h.URL, address)
	}
	return nil
}

// all returns all hosts, to be changed.
func (e *Experiment) all() []*Host {
	all := []*Host{&e.Lighthouse}
	for i := range e.Sites {
		all = append(all, &e.Sites[i].Host)
	}
	return all
}

// addressed says which host has no address.
func (e *Experiment) addressed() error {
	for _, h := range e.all() {
		if !h.Underlay.IsValid() {
			return fmt.Errorf("host %s: write the address at which the other hosts reach it after it, with a comma between", h.URL)
		}
	}
	return nil
}

// defaultAddress is the address from which a host sends to the outside.
func defaultAddress(ctx context.Context, hosts host.Opener, url string) (netip.Addr, error) {
	h, err := hosts.Open(ctx, url)
	if err != nil {
		return netip.Addr{}, err
	}
	// An address of the documentation, to which nothing is sent.
	output, err := h.Run(ctx, host.Command{Argv: []string{"ip", "-json", "route", "get", "192.0.2.1"}})
	if err != nil {
		return netip.Addr{}, err
	}
	var routes []struct {
		Source netip.Addr `json:"prefsrc"`
	}
	if err := json.Unmarshal(output.Stdout, &routes); err != nil {
		return netip.Addr{}, err
	}
	if len(routes) == 0 || !routes[0].Source.IsValid() {
		return netip.Addr{}, errors.New("it has no default route")
	}
	return routes[0].Source, nil
}

// write writes all files, or none when one is there already.
func write(folder string, files map[string][]byte) error {
	names := slices.Sorted(maps.Keys(files))
	var there []string
	for _, name := range names {
		if _, err := os.Lstat(filepath.Join(folder, name)); err == nil {
			there = append(there, filepath.Join(folder, name))
		} else if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("look for files: %w", err)
		}
	}
	if len(there) > 0 {
		return fmt.Errorf("%s: there already, and nothing is overwritten; name another folder with -out", strings.Join(there, ", "))
	}
	for _, name := range names {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("write the experiment: %w", err)
		}
		// Exclusive, since another may write at the same time.
		file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return fmt.Errorf("write the experiment: %w", err)
		}
		_, err = file.Write(files[name])
		if err := errors.Join(err, file.Close()); err != nil {
			return fmt.Errorf("write the experiment: %w", err)
		}
	}
	return nil
}
