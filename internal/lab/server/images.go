package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// imageFolder is the folder whose tarballs are imported, at the start and when
// one appears.
type imageFolder struct {
	path    string
	inotify *os.File
}

// watchImages begins to watch before the first look, so that no file slips
// through between the two.
func watchImages(path string) (*imageFolder, error) {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, fmt.Errorf("make the image folder: %w", err)
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", path, err)
	}
	if _, err := unix.InotifyAddWatch(fd, path, unix.IN_CLOSE_WRITE|unix.IN_MOVED_TO); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("watch %s: %w", path, err)
	}
	return &imageFolder{path: path, inotify: os.NewFile(uintptr(fd), path)}, nil
}

// importAll imports every tarball that is there.
func (f *imageFolder) importAll(ctx context.Context) error {
	entries, err := os.ReadDir(f.path)
	if err != nil {
		return fmt.Errorf("read the image folder: %w", err)
	}
	for _, entry := range entries {
		if err := f.load(ctx, entry.Name()); err != nil {
			return err
		}
	}
	return nil
}

// importNew imports each tarball that appears, until the folder is closed.
// A bad one is reported and harms nothing else.
func (f *imageFolder) importNew(ctx context.Context, report func(error)) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := f.inotify.Read(buffer)
		if err != nil {
			return
		}
		for events := buffer[:n]; len(events) >= unix.SizeofInotifyEvent; {
			length := int(binary.NativeEndian.Uint32(events[unix.SizeofInotifyEvent-4:]))
			name := events[unix.SizeofInotifyEvent:][:length]
			events = events[unix.SizeofInotifyEvent+length:]
			if err := f.load(ctx, string(bytes.TrimRight(name, "\x00"))); err != nil {
				report(err)
			}
		}
	}
}

func (f *imageFolder) close() { f.inotify.Close() }

// load imports one file; containerd itself sees through gzip and zstd.
func (f *imageFolder) load(ctx context.Context, name string) error {
	endings := []string{".tar", ".tar.gz", ".tgz", ".tar.zst"}
	if !slices.ContainsFunc(endings, func(ending string) bool { return strings.HasSuffix(name, ending) }) {
		return nil
	}
	ctr := exec.CommandContext(ctx, "ctr", "--address", ContainerdSocket, "--namespace", "k8s.io",
		"images", "import", filepath.Join(f.path, name))
	if out, err := ctr.CombinedOutput(); err != nil {
		return fmt.Errorf("import the images of %s: %w: %s", name, err, bytes.TrimSpace(out))
	}
	return nil
}
