// Package ledger is the record of the files that the testbed put on a machine
// with an init of its own, kept on that machine: what to remove is known there
// without any state, and what the machine had before is told from it.
package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/datadir"
)

// Dir is the folder of everything that the testbed keeps for itself on such a
// machine: its agents, each in a folder named by its digest, and the ledger.
const Dir = "/var/lib/testbed-agent"

// Ledger is the record in one folder. Several processes may use it at once.
type Ledger string

// entries are what the ledger says.
type entries struct {
	// Owner is who began it, for people.
	Owner string `json:"owner,omitempty"`

	// Files were written by the testbed and not there before, Folders were
	// made for them.
	Files   []string `json:"files,omitempty"`
	Folders []string `json:"folders,omitempty"`
}

func (l Ledger) path() string { return filepath.Join(string(l), "ledger.json") }

// Add notes a file that is about to be written, and the folders that will be
// made for it. A file that is there and not noted is the machine's own, and
// stays so.
func (l Ledger) Add(owner, file string) error {
	if err := os.MkdirAll(string(l), 0o755); err != nil {
		return fmt.Errorf("keep the testbed's ledger: %w", err)
	}
	return l.change(func(e *entries) {
		if slices.Contains(e.Files, file) || exists(file) {
			return
		}
		if e.Owner == "" {
			e.Owner = owner
		}
		e.Files = append(e.Files, file)
		for folder := filepath.Dir(file); !exists(folder); folder = filepath.Dir(folder) {
			e.Folders = append(e.Folders, folder)
		}
	})
}

// Settle strikes out what is no longer there, after removing the noted folders
// that nothing is left in.
func (l Ledger) Settle() error {
	return l.change(func(e *entries) {
		e.Files = slices.DeleteFunc(e.Files, func(file string) bool { return !exists(file) })
		slices.SortFunc(e.Folders, deepestFirst)
		e.Folders = slices.DeleteFunc(slices.Compact(e.Folders), func(folder string) bool {
			_ = os.Remove(folder) // which a folder with something in it withstands
			return !exists(folder)
		})
		if len(e.Files)+len(e.Folders) == 0 {
			e.Owner = ""
		}
	})
}

// Remove removes the noted files, and the noted folders that nothing else is
// in, and tells report each. It goes on after an error.
func (l Ledger) Remove(report func(path string)) error {
	files, err := l.Left()
	if err != nil {
		return err
	}
	var errs []error
	for _, file := range files {
		err := os.Remove(file)
		if err == nil {
			report(file)
		} else if !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, l.Settle())...)
}

// Left returns the noted files, sorted.
func (l Ledger) Left() ([]string, error) {
	e, err := l.read()
	slices.Sort(e.Files)
	return e.Files, err
}

func deepestFirst(a, b string) int {
	if order := strings.Count(b, "/") - strings.Count(a, "/"); order != 0 {
		return order
	}
	return strings.Compare(a, b)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func (l Ledger) read() (entries, error) {
	var e entries
	err := datadir.ReadJSON(l.path(), &e)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return e, fmt.Errorf("read the testbed's ledger: %w", err)
	}
	return e, nil
}

// change lets one process at a time change the ledger, if there is one.
func (l Ledger) change(edit func(*entries)) error {
	if err := l.changeLocked(edit); err != nil {
		return fmt.Errorf("keep the testbed's ledger: %w", err)
	}
	return nil
}

func (l Ledger) changeLocked(edit func(*entries)) error {
	folder, err := os.Open(string(l))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer folder.Close() // which unlocks it
	if err := syscall.Flock(int(folder.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	e, err := l.read()
	if err != nil {
		return err
	}
	before, err := json.Marshal(e)
	if err != nil {
		return err
	}
	edit(&e)
	after, err := json.Marshal(e)
	if err != nil || string(before) == string(after) {
		return err
	}
	return datadir.WriteJSON(l.path(), e)
}
