// Command lab builds, from Go modules and Debian's packages alone, what machines
// without internet cannot download: a stand-in for k3s with its air-gap images,
// ClusterLink's images and that of haproxy.
//
//	go run -C internal/lab . -out DIR
//
// It builds what is missing or changed and leaves the rest alone.
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
	if flag.NArg() > 0 {
		return fmt.Errorf("%q is not expected: the only argument is -out DIR", flag.Arg(0))
	}
	if _, err := os.Stat("clusterlink/go.mod"); err != nil {
		return errors.New("run this in the folder internal/lab: go run -C internal/lab . -out DIR")
	}
	if err := checkPrograms(); err != nil {
		return err
	}
	out, err := filepath.Abs(out)
	if err != nil {
		return fmt.Errorf("find the output folder: %w", err)
	}
	b, err := newBuilder(ctx, out)
	if err != nil {
		return err
	}
	defer b.close()
	for _, p := range products() {
		if err := b.make(ctx, p); err != nil {
			return fmt.Errorf("build %s: %w", p.name, err)
		}
	}
	return b.writeSums(products())
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
