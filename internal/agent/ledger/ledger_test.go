package ledger_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/agent/ledger"
)

// put writes a file as the agent does: noted first.
func put(t *testing.T, l ledger.Ledger, file string) {
	t.Helper()
	if err := l.Add("me", file); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func left(t *testing.T, l ledger.Ledger) []string {
	t.Helper()
	files, err := l.Left()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// tree returns all paths below a folder.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if path != dir {
			found = append(found, path[len(dir)+1:])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestLedger(t *testing.T) {
	machine := t.TempDir()
	l := ledger.Ledger(filepath.Join(t.TempDir(), "kept"))
	file := func(name string) string { return filepath.Join(machine, name) }
	if err := os.WriteFile(file("own"), nil, 0o600); err != nil {
		t.Fatal(err)
	}

	put(t, l, file("own")) // the machine's, overwritten
	put(t, l, file("etc/net/a"))
	put(t, l, file("etc/net/b"))
	put(t, l, file("etc/net/b")) // again
	put(t, l, file("var/c"))
	if diff := cmp.Diff([]string{file("etc/net/a"), file("etc/net/b"), file("var/c")}, left(t, l)); diff != "" {
		t.Error(diff)
	}

	// What was removed is struck out, with the folders that were made for it.
	for _, gone := range []string{"etc/net/a", "etc/net/b"} {
		if err := os.Remove(file(gone)); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Settle(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{file("var/c")}, left(t, l)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"own", "var", "var/c"}, tree(t, machine)); diff != "" {
		t.Error(diff)
	}

	// A folder that somebody else uses stays.
	if err := os.WriteFile(file("var/theirs"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var removed []string
	if err := l.Remove(func(path string) { removed = append(removed, path) }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{file("var/c")}, removed); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"own", "var", "var/theirs"}, tree(t, machine)); diff != "" {
		t.Error(diff)
	}
	if got := left(t, l); len(got) != 0 {
		t.Errorf("left: %q", got)
	}
}

func TestNoLedger(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "absent")
	l := ledger.Ledger(dir)
	if err := l.Settle(); err != nil {
		t.Error(err)
	}
	if got := left(t, l); len(got) != 0 {
		t.Errorf("left: %q", got)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("looking made %s: %v", dir, err)
	}
}
