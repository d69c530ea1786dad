package provider

import (
	"context"
	"testing"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/datadir"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/local"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/underlay"
)

// newDataDir returns a testbed's folder for one test. When the test ends
// before its own destroy, whatever runs from the folder is ended all the same.
func newDataDir(t *testing.T) datadir.Dir {
	t.Helper()
	dir := datadir.Dir(t.TempDir())
	t.Cleanup(func() {
		ctx := context.Background()
		hosts, err := dir.Hosts()
		if err != nil {
			t.Error(err)
		}
		for _, name := range hosts {
			if err := local.NewOpener(string(dir)).Remove(ctx, name); err != nil {
				t.Error(err)
			}
		}
		networks, err := dir.Networks()
		if err != nil {
			t.Error(err)
		}
		for _, name := range networks {
			if err := underlay.Remove(ctx, dir, name); err != nil {
				t.Error(err)
			}
		}
	})
	return dir
}
