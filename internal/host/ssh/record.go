package ssh

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/datadir"
)

// Records is the folder that remembers what was said of single hosts, so that
// everything that opens a host by its URL reaches it in the same way. It holds
// no secrets. Without a name there are no records.
type Records string

// Record is what was said of one host.
type Record struct {
	HostKey      string `json:"host_key,omitempty"` // as in an authorized_keys file, or its SHA256 fingerprint
	Bastion      string `json:"bastion,omitempty"`
	IdentityFile string `json:"identity_file,omitempty"`

	// Abandon says that what is on the host may stay there when the host
	// cannot be reached any more.
	Abandon bool `json:"abandon,omitempty"`
}

func (r Records) path(target Target) string {
	return filepath.Join(string(r), url.PathEscape(target.String())+".json")
}

// find returns a host's record, which is empty for a host that has none.
func (r Records) find(target Target) (Record, error) {
	var found Record
	if r == "" {
		return found, nil
	}
	err := datadir.ReadJSON(r.path(target), &found)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Record{}, fmt.Errorf("find what is known of %s: %w", target, err)
	}
	return found, nil
}

// save remembers what was said of a host. An empty record is none.
func (r Records) save(target Target, record Record) error {
	if r == "" {
		return nil
	}
	if record == (Record{}) {
		return r.forget(target)
	}
	err := os.MkdirAll(string(r), 0o700)
	if err == nil {
		err = datadir.WriteJSON(r.path(target), record)
	}
	if err != nil {
		return fmt.Errorf("remember how to reach %s: %w", target, err)
	}
	return nil
}

// forget removes a host's record.
func (r Records) forget(target Target) error {
	if r == "" {
		return nil
	}
	if err := os.Remove(r.path(target)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget how to reach %s: %w", target, err)
	}
	_ = os.Remove(string(r)) // stays when it holds others
	return nil
}

// Known returns what is known of a host, which may be nothing.
func (o *Opener) Known(target Target) (Record, error) { return o.record(target) }

// record returns what is known of a host: what was said in this run of the
// provider, or in earlier ones.
func (o *Opener) record(target Target) (Record, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if said, ok := o.said[target]; ok {
		return said, nil
	}
	return o.config.Records.find(target)
}

// say makes this run of the provider reach a host as the record says. A
// connection that was made otherwise is given up.
func (o *Opener) say(target Target, record Record) {
	o.mu.Lock()
	before, known := o.said[target]
	o.said[target] = record
	current := o.hosts[target]
	o.mu.Unlock()
	before.Abandon, record.Abandon = false, false
	if known && before != record && current != nil {
		current.close()
	}
}

// Abandons reports whether what is on a host may stay there when the host
// cannot be reached. It is false for hosts that nobody said it of.
func (o *Opener) Abandons(url string) bool {
	target, err := Parse(url)
	if err != nil {
		return false
	}
	record, err := o.record(target)
	return err == nil && record.Abandon
}
