// Package datadir is the folder that holds everything of one testbed on this
// machine. Each part below it, a host or a network, has a folder of its own
// that is there before anything of the part is, and goes last; so the folder
// alone tells what there is to remove.
package datadir

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Dir is the absolute path of a testbed's folder.
type Dir string

// Folders are those that a testbed makes in its folder.
var Folders = []string{"agent", "cache", "hosts", "keys", "networks", "results"}

// ID is a short name of the testbed that other testbeds on this machine do not
// have.
func (d Dir) ID() string {
	sum := sha256.Sum256([]byte(filepath.Clean(string(d))))
	return hex.EncodeToString(sum[:4])
}

// Host is the folder of one local host.
func (d Dir) Host(name string) string { return filepath.Join(string(d), "hosts", name) }

// Network is the folder of one network.
func (d Dir) Network(name string) string { return filepath.Join(string(d), "networks", name) }

// Agents is the folder of the installed agents, each in a folder named by its
// digest.
func (d Dir) Agents() string { return filepath.Join(string(d), "agent") }

// Hosts returns the names of all local hosts, also of half-made ones.
func (d Dir) Hosts() ([]string, error) { return names(filepath.Join(string(d), "hosts")) }

// Networks returns the names of all networks, also of half-made ones.
func (d Dir) Networks() ([]string, error) { return names(filepath.Join(string(d), "networks")) }

func names(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		if entry.IsDir() {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// Make makes the folder of a part and locks it, so that one process at a time
// works on the part.
func (d Dir) Make(ctx context.Context, part string) (unlock func(), err error) {
	for {
		// The parents go with the last part, which may be at this moment.
		whole, err := d.lock(ctx, string(d), true)
		if err != nil {
			return nil, err
		}
		err = os.MkdirAll(part, 0o700)
		whole()
		if err != nil {
			return nil, err
		}
		if unlock, err = d.lock(ctx, part, false); !errors.Is(err, fs.ErrNotExist) {
			return unlock, err
		}
	}
}

// Lock locks the folder of a part. It is an fs.ErrNotExist when there is none.
func (d Dir) Lock(ctx context.Context, part string) (unlock func(), err error) {
	return d.lock(ctx, part, false)
}

// Drop removes the folder of a part, and with the last part what the parts
// shared. The caller holds the part's lock.
func (d Dir) Drop(ctx context.Context, part string) error {
	if err := os.RemoveAll(part); err != nil {
		return err
	}
	unlock, err := d.lock(ctx, string(d), false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	for _, parent := range []string{"hosts", "networks"} {
		if err := os.Remove(filepath.Join(string(d), parent)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil // other parts are still there
		}
	}
	if err := os.RemoveAll(d.Agents()); err != nil {
		return err
	}
	_ = os.Remove(string(d)) // stays when it holds the user's files, keys or results
	return nil
}

// WriteJSON replaces a file at once, never leaving half of it.
func WriteJSON(path string, value any) error {
	content, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	temporary := path + ".new"
	if err := os.WriteFile(temporary, append(content, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}

// ReadJSON reads a file that WriteJSON wrote.
func ReadJSON(path string, value any) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(content, value); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}
