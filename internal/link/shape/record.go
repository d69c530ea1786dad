package shape

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/link"
)

// shaper does the work on one host.
type shaper struct {
	ctx    context.Context
	record string // path of the record
}

// record is what is done on a host.
type record struct {
	Links   map[string]*work `json:"links"`
	Devices map[string]*base `json:"devices"`
}

// work is what is done for a link. What the kernel says of filters is kept as
// it said it, to see whether somebody changed them.
type work struct {
	link.Part
	Device         string `json:"device"`
	Class          int    `json:"class"`
	Leaf           int    `json:"leaf"`         // handle's major number
	IngressLeaf    int    `json:"ingress_leaf"` // on the ifb device
	Filters        string `json:"filters"`
	IngressFilters string `json:"ingress_filters,omitempty"`
	Redirects      string `json:"redirects,omitempty"`
}

// base is what a device was before its first link, and what was added.
type base struct {
	Index    int       `json:"index"`
	Offloads []string  `json:"offloads,omitempty"` // that were turned off
	Root     *snapshot `json:"root,omitempty"`     // that was replaced; nil for the kernel's default
	Ingress  bool      `json:"ingress,omitempty"`  // the ingress discipline was added
	Ifb      string    `json:"ifb,omitempty"`      // the ifb device that was added
}

// lock keeps other shapers of the host away until unlock is called. It is a
// lock on the folder above the record's, which leaves nothing behind.
func (s *shaper) lock() (unlock func(), err error) {
	folder, err := os.Open(filepath.Dir(filepath.Dir(s.record)))
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(folder.Fd()), syscall.LOCK_EX); err != nil {
		folder.Close()
		return nil, fmt.Errorf("lock %s: %w", folder.Name(), err)
	}
	return func() { folder.Close() }, nil
}

// load reads the record, without what is about devices that are gone: a device
// that was made again has nothing of ours.
func (s *shaper) load() (*record, error) {
	r := &record{Links: map[string]*work{}, Devices: map[string]*base{}}
	text, err := os.ReadFile(s.record)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(text, r)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", s.record, err)
	}
	for name, device := range r.Devices {
		if found, err := deviceOf(name); err != nil || found.Index != device.Index {
			delete(r.Devices, name)
		}
	}
	for id, w := range r.Links {
		if r.Devices[w.Device] == nil {
			delete(r.Links, id)
		}
	}
	return r, nil
}

// save replaces the record, and removes it, with a folder that is empty then,
// when there is nothing to tell.
func (s *shaper) save(r *record) error {
	if len(r.Links) == 0 && len(r.Devices) == 0 {
		if err := os.Remove(s.record); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		_ = os.Remove(filepath.Dir(s.record)) // which one with something in it withstands
		return nil
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(s.record), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(s.record+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(s.record+".new", s.record)
}
