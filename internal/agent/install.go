package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/datadir"
)

// Install puts this machine's agent into the testbed's folder, unless it is
// there already, and returns its path.
func Install(dir datadir.Dir) (string, error) {
	packed, err := packed(runtime.GOARCH)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir.Agents(), digest(packed), "testbed-agent")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	content, err := unpack(packed)
	if err == nil {
		err = install(path, content)
	}
	if err != nil {
		return "", fmt.Errorf("install the agent: %w", err)
	}
	return path, nil
}

// install gives the program its name when it is complete, since others may
// install it at the same time and run it at once.
func install(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), "new-*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = file.Write(content)
	if err := errors.Join(err, file.Chmod(0o755), file.Close()); err != nil {
		return err
	}
	// A child that is being forked has the file open too until it executes its
	// own program, and until then this one cannot be executed.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	// The first one stays, for it may be running already.
	if err := os.Link(file.Name(), path); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
