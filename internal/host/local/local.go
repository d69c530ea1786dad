// Package local makes and opens local hosts: machines made of namespaces on
// this machine. A host lives as long as its init, testbed-agent, does; whoever
// finds a host's init alive finds the whole host, and when the init ends,
// nothing of the host is left running.
package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/datadir"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
)

var _ host.Opener = (*Opener)(nil)

// Opener makes, opens and removes the local hosts of one testbed.
type Opener struct {
	dir datadir.Dir
}

// NewOpener returns the opener for the testbed in a folder.
func NewOpener(dataDir string) *Opener { return &Opener{dir: datadir.Dir(dataDir)} }

// scheme begins the URL of every local host.
const scheme = "local://"

// URL returns the URL of the local host of that name.
func URL(name string) string { return scheme + name }

// label is what a host name may consist of.
var label = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// CheckName says what is wrong with a host's name.
func CheckName(name string) error {
	if !label.MatchString(name) {
		return fmt.Errorf("host name %q: it must be 1 to 63 lower-case letters, digits and hyphens, and neither begin nor end with a hyphen", name)
	}
	return nil
}

// Open opens a living local host. It is an fs.ErrNotExist when there is none.
func (o *Opener) Open(_ context.Context, url string) (host.Host, error) {
	name, ok := strings.CutPrefix(url, scheme)
	if !ok {
		return nil, fmt.Errorf("open host %s: only %sNAME names a local host", url, scheme)
	}
	if err := CheckName(name); err != nil {
		return nil, err
	}
	found, err := o.living(name)
	if err != nil {
		return nil, fmt.Errorf("open host %s: %w", url, err)
	}
	return newClient(o.dir, found), nil
}

// living returns the record of a host whose init is alive.
func (o *Opener) living(name string) (record, error) {
	found, err := load(o.dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		return record{}, fmt.Errorf("no local host %q in %s: %w", name, o.dir, fs.ErrNotExist)
	}
	if err != nil {
		return record{}, err
	}
	if !found.Init.Alive() {
		return record{}, fmt.Errorf("the init of local host %q has ended: %w", name, fs.ErrNotExist)
	}
	return found, nil
}
