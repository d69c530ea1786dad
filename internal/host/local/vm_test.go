package local_test

import (
	"testing"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/vmtest"
)

// TestVMLocal makes local hosts on a machine with systemd and the unified
// hierarchy of control groups alone, which the one that tests may not have.
func TestVMLocal(t *testing.T) {
	m := vmtest.Lab(t, 1)[0]
	before := m.TakeInventory(t)
	m.RunTests(t, "^(TestHidesTheTestbed|TestIsMachineOfItsOwn|TestRun|TestServices|TestContainer|TestCreateTwice|TestKilledInit|TestCleanup|TestRemoveWithoutFolder)$")
	if _, err := m.Shell(t.Context(), "rm -r /root/tests"); err != nil {
		t.Fatal(err)
	}
	before.CompareAfter(t)
}
