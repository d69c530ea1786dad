package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/process"
)

// Remove ends whatever still runs in the group or below it and removes the
// group in every hierarchy, then those of its parents that have become empty.
// An absent group is no error.
func (hs Hierarchies) Remove(ctx context.Context, path string) error {
	for _, h := range hs {
		if err := h.remove(ctx, filepath.Join(h.Mount, path)); err != nil {
			return fmt.Errorf("remove cgroup %s: %w", filepath.Join(h.Mount, path), err)
		}
		for parent := filepath.Dir(path); parent != "."; parent = filepath.Dir(parent) {
			if os.Remove(filepath.Join(h.Mount, parent)) != nil {
				break // it holds other hosts' groups
			}
		}
	}
	return nil
}

// Exists reports whether any hierarchy has the group.
func (hs Hierarchies) Exists(path string) bool {
	return slices.ContainsFunc(hs, func(h Hierarchy) bool {
		_, err := os.Stat(filepath.Join(h.Mount, path))
		return err == nil
	})
}

// remove goes on until ctx ends: the kernel takes a moment to let go of a group
// whose last process has just ended.
func (h Hierarchy) remove(ctx context.Context, group string) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := removeTree(ctx, group)
		if !errors.Is(err, syscall.EBUSY) && !errors.Is(err, syscall.ENOTEMPTY) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// removeTree removes a group and the groups below it, deepest first.
func removeTree(ctx context.Context, group string) error {
	entries, err := os.ReadDir(group)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir() {
			if err := removeTree(ctx, filepath.Join(group, entry.Name())); err != nil {
				return err
			}
		}
	}
	if err := killAll(ctx, group); err != nil {
		return err
	}
	if err := syscall.Rmdir(group); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func killAll(ctx context.Context, group string) error {
	content, err := os.ReadFile(filepath.Join(group, "cgroup.procs"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, field := range strings.Fields(string(content)) {
		pid, err := strconv.Atoi(field)
		if err != nil || pid == 0 {
			continue // 0 is a process of a foreign PID namespace
		}
		id, err := process.Of(pid)
		if err != nil {
			continue // gone meanwhile
		}
		if err := id.Kill(ctx); err != nil {
			return err
		}
	}
	return nil
}
