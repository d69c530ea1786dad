package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/cgroup"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/datadir"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/process"
)

// record is what the folder of a host remembers of it. It is written before
// the host's init does anything, and is all that its removal needs to know.
type record struct {
	Name string     `json:"name"`
	Init process.ID `json:"init"`

	// Made says that the host was completed. A host whose making was
	// interrupted has no owner and is remade.
	Made bool `json:"made"`
}

func recordPath(dir datadir.Dir, name string) string {
	return filepath.Join(dir.Host(name), "host.json")
}

// load returns a host's record. It is an fs.ErrNotExist when there is none.
func load(dir datadir.Dir, name string) (record, error) {
	var found record
	err := datadir.ReadJSON(recordPath(dir, name), &found)
	return found, err
}

// save writes the record.
func (r record) save(dir datadir.Dir) error {
	return datadir.WriteJSON(recordPath(dir, r.Name), r)
}

// GroupPath is a host's control group in every hierarchy, or, without a name,
// the one that holds those of all hosts of the testbed.
func GroupPath(dir datadir.Dir, name string) string {
	return filepath.Join("testbed", dir.ID(), name)
}

// end ends a host's processes, which ends its namespaces and mounts as well,
// and removes its control groups. The caller holds the lock of the host's
// folder.
func end(ctx context.Context, dir datadir.Dir, name string) error {
	found, err := load(dir, name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("end host %s: %w", name, err)
	}
	if err == nil {
		if err := found.Init.Kill(ctx); err != nil {
			return fmt.Errorf("end host %s: %w", name, err)
		}
	}
	hierarchies, err := cgroup.Mounted()
	if err == nil {
		err = hierarchies.Remove(ctx, GroupPath(dir, name))
	}
	if err != nil {
		return fmt.Errorf("end host %s: %w", name, err)
	}
	return nil
}
