//go:build unix

package datadir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// lock locks a folder by itself, so that no lock file stays behind.
func (d Dir) lock(ctx context.Context, dir string, create bool) (unlock func(), err error) {
	for {
		if create {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return nil, err
			}
		}
		file, err := os.Open(dir)
		if create && errors.Is(err, fs.ErrNotExist) {
			continue // the last part went with it, just now
		}
		if err != nil {
			return nil, err
		}
		if err := flock(ctx, file); err != nil {
			file.Close()
			return nil, fmt.Errorf("lock %s: %w", dir, err)
		}
		// It may have been removed, and made again, by the one who held it.
		locked, err := file.Stat()
		if err != nil {
			file.Close()
			return nil, err
		}
		if current, err := os.Stat(dir); err == nil && os.SameFile(locked, current) {
			return func() { file.Close() }, nil
		}
		file.Close()
	}
}

// flock waits for the lock until ctx ends. The kernel can wait for a lock, but
// not for a lock or a context, hence the ticks.
func flock(ctx context.Context, file *os.File) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
