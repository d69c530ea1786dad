package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Schemes opens each host with the opener for its URL's scheme, for example
// "local" or "ssh".
type Schemes map[string]Opener

var _ Opener = Schemes(nil)

// Open opens a host. A URL of another scheme is an error that names those
// there are.
func (s Schemes) Open(ctx context.Context, url string) (Host, error) {
	scheme, _, ok := strings.Cut(url, "://")
	opener := s[scheme]
	if !ok || opener == nil {
		known := strings.Join(slices.Sorted(maps.Keys(s)), ":// or ")
		return nil, fmt.Errorf("open host %q: its URL must begin with %s://", url, known)
	}
	return opener.Open(ctx, url)
}

// Close closes the openers that have something to close.
func (s Schemes) Close() error {
	var errs []error
	for _, opener := range s {
		if closer, ok := opener.(io.Closer); ok {
			errs = append(errs, closer.Close())
		}
	}
	return errors.Join(errs...)
}
