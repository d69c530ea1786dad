// Command lab builds, from Go modules and Debian's packages alone, what machines
// without internet cannot download: a stand-in for k3s with its air-gap images,
// and the images of ClusterLink, haproxy and Knative.
//
//	go run -C internal/lab . -out DIR [PRODUCT...]
//
// It builds what is missing or changed and leaves the rest alone. Products that
// take long and that few need, such as Traefik's image, are built when named.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

func main() {
	out := flag.String("out", "../../.cache/lab", "folder to write to")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *out); err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out string) error {
	wanted, err := choose(products(), flag.Args())
	if err != nil {
		return err
	}
	if _, err := os.Stat("clusterlink/go.mod"); err != nil {
		return errors.New("run this in the folder internal/lab: go run -C internal/lab . -out DIR")
	}
	if err := checkPrograms(); err != nil {
		return err
	}
	out, err = filepath.Abs(out)
	if err != nil {
		return fmt.Errorf("find the output folder: %w", err)
	}
	b, err := newBuilder(ctx, out)
	if err != nil {
		return err
	}
	defer b.close()
	for _, p := range wanted {
		if err := b.make(ctx, p); err != nil {
			return fmt.Errorf("build %s: %w", p.name, err)
		}
	}
	if flag.NArg() > 0 {
		return nil // the checksums are those of all together
	}
	return b.writeSums(wanted)
}

// choose returns the products that are always made, or else those that are
// named.
func choose(all []product, names []string) ([]product, error) {
	var chosen []product
	for _, p := range all {
		if len(names) == 0 && !p.extra || slices.Contains(names, p.name) {
			chosen = append(chosen, p)
		}
	}
	if len(names) > 0 && len(chosen) != len(names) {
		return nil, fmt.Errorf("%q are not all products of the lab; products.go lists them", names)
	}
	return chosen, nil
}

// programs are what the stand-in needs beside itself, with Debian's packages
// that have them.
var programs = []struct{ pkg, path string }{
	{"containerd", "/usr/bin/containerd"},
	{"containerd", "/usr/bin/ctr"},
	{"runc", "/usr/sbin/runc"},
	{"containernetworking-plugins", "/usr/lib/cni/bridge"},
	{"nftables", "/usr/sbin/nft"},
	{"iptables", "/usr/sbin/iptables"},
}

// checkPrograms says at once what would be missing at the end of a long build.
func checkPrograms() error {
	var missing []string
	for _, p := range programs {
		_, atPath := os.Stat(p.path)
		_, anywhere := exec.LookPath(filepath.Base(p.path))
		if atPath != nil && anywhere != nil {
			missing = append(missing, p.pkg)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("the lab runs on programs that are missing; install them with: apt-get install -y %s", strings.Join(missing, " "))
}
