//go:build linux

// Package sweep removes k3s from the machine it runs on: the processes of its
// pods, mounts, network namespaces, links, packet filter rules, cgroups and
// files, and then makes sure that nothing is left.
//
// It touches what bears k3s's names only, unlike k3s's own killall script,
// which ends shims of every namespace of the kernel and rewrites whole tables.
// The service has to be stopped before.
package sweep

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// files are what k3s, its kubelet, containerd and CNI plugins write.
func files() []string {
	return []string{
		"/var/lib/rancher",
		"/var/lib/kubelet",
		"/var/lib/cni",
		"/var/log/pods",
		"/var/log/containers",
		"/etc/rancher/k3s",
		"/etc/rancher/node",
		"/run/k3s",
		"/run/flannel",
		"/usr/local/bin/k3s",
		"/usr/local/bin/k3s.new",
	}
}

// Command is the agent's command. It takes no arguments.
func Command(ctx context.Context, args []string) error {
	if len(args) > 0 {
		return errors.New("it takes no arguments")
	}
	if err := endProcesses(ctx); err != nil {
		return err
	}
	if err := unmount(); err != nil {
		return err
	}
	if err := errors.Join(removeNamespaces(), removeLinks(), removeRules(ctx), stopSlice(ctx), removeCgroups(ctx)); err != nil {
		return err
	}
	for _, path := range files() {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	_ = os.Remove("/etc/rancher") // stays when it holds something else
	return verify()
}

// verify looks again, since parts may have come back in between.
func verify() error {
	var left []string
	processes, err := ours()
	if err != nil {
		return err
	}
	for _, process := range processes {
		left = append(left, process.String())
	}
	points, err := mounts()
	if err != nil {
		return err
	}
	left = append(left, points...)
	for _, path := range files() {
		if _, err := os.Lstat(path); err == nil {
			left = append(left, path)
		}
	}
	links, err := links()
	if err != nil {
		return err
	}
	for _, link := range links {
		left = append(left, "link "+link.Attrs().Name)
	}
	if len(left) > 0 {
		return fmt.Errorf("k3s was removed, but this is left: %s", strings.Join(left, ", "))
	}
	return nil
}

// stopSlice lets systemd forget the slice of the pods, which it keeps for a
// kubelet that makes its cgroups through it.
func stopSlice(ctx context.Context) error {
	if _, err := os.Stat("/run/systemd/system"); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, pattern := range []string{"/sys/fs/cgroup/kubepods.slice", "/sys/fs/cgroup/*/kubepods.slice"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		if len(found) > 0 {
			_, err := run(ctx, "", "systemctl", "stop", "kubepods.slice")
			return err
		}
	}
	return nil
}

// cgroupPatience is how long the kernel may take to let go of the cgroup of a
// process that has ended.
const cgroupPatience = 30 * time.Second

// removeCgroups removes the kubelet's cgroups, whose processes have ended.
func removeCgroups(ctx context.Context) error {
	roots, err := filepath.Glob("/sys/fs/cgroup/kubepods")
	if err != nil {
		return err
	}
	perController, err := filepath.Glob("/sys/fs/cgroup/*/kubepods")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, cgroupPatience)
	defer cancel()
	for _, root := range append(roots, perController...) {
		for {
			err := removeTree(root)
			if err == nil {
				break
			}
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
				return err
			}
		}
	}
	return nil
}

// removeTree removes folders only, the deepest first; a cgroup's files cannot
// be removed. What is gone is no error: a hierarchy with several controllers has
// several names.
func removeTree(root string) error {
	var folders []string
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err == nil && entry.IsDir() {
			folders = append(folders, path)
		}
		return nil
	})
	if err != nil {
		return err
	}
	slices.Reverse(folders)
	for _, folder := range folders {
		if err := os.Remove(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
