package vmtest

import (
	_ "embed"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

//go:embed inventory.sh
var inventoryScript string

// settleWithin is how long a machine may take until what was removed is gone:
// systemd forgets units a moment after they end.
const settleWithin = time.Minute

// Inventory is what there was on a machine.
type Inventory struct {
	machine *Machine
	lines   []string
}

// TakeInventory notes what is on a machine before a test.
func (m *Machine) TakeInventory(t *testing.T) Inventory {
	t.Helper()
	i := Inventory{machine: m}
	i.lines = i.look(t)
	return i
}

// CompareAfter fails the test when something else is on the machine than was
// when the inventory was taken.
func (i Inventory) CompareAfter(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(settleWithin); ; time.Sleep(time.Second) {
		diff := cmp.Diff(i.lines, i.look(t))
		if diff == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("%s is not what it was (-before +after):\n%s", i.machine.Name, diff)
			return
		}
	}
}

func (i Inventory) look(t *testing.T) []string {
	t.Helper()
	output, err := i.machine.Shell(t.Context(), inventoryScript)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(output), "\n")
	slices.Sort(lines)
	return lines
}
