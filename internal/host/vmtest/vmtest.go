// Package vmtest is the VM lab: up to three Debian machines under software
// emulation, with a kernel, a systemd and an sshd of their own, for what
// namespaces on this machine cannot show.
//
// The command vmlab makes the image, starts the machines, runs a command, for
// example "go test", and ends them. A test asks for machines by Lab, which
// gives it machines as they were after their first boot: a snapshot, so that
// machines boot once and not for each test.
package vmtest

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
)

// Variable names the environment variable with the folder of a lab that runs.
const Variable = "TESTBED_VM_LAB"

// MaxMachines is how many machines the image has addresses for.
const MaxMachines = 3

// Machine is a machine of a lab that runs.
type Machine struct {
	Name      string         `json:"name"` // "vm1", its hostname
	SSH       netip.AddrPort `json:"ssh"`  // a port of this machine's loopback
	Underlay  netip.Addr     `json:"underlay"`
	Underlay6 netip.Addr     `json:"underlay6"`

	dir string // of the lab
}

// UnderlayDevice is the machines' device in their own network, and
// ControlDevice that through which sshd is reached.
const (
	UnderlayDevice = "eth1"
	ControlDevice  = "eth0"
)

// URL returns the host's URL for a user: "root", "admin", whose sudo asks
// nothing, "guarded", whose sudo asks for the password "testbed", or
// "stranger", who has no sudo. All have the key in KeyFile.
func (m *Machine) URL(user string) string { return "ssh://" + user + "@" + m.SSH.String() }

// KeyFile returns the path of the private key that every user accepts.
func (m *Machine) KeyFile() string { return filepath.Join(m.dir, keyFile) }

// HostKey returns the machine's public key, as in authorized_keys.
func (m *Machine) HostKey() (string, error) {
	content, err := os.ReadFile(filepath.Join(m.dir, hostKeyFile))
	return string(content), err
}

// ConsoleFile returns the path of what the machine wrote on its serial line.
func (m *Machine) ConsoleFile() string { return filepath.Join(m.dir, m.Name+".console") }

func (m *Machine) monitorFile() string { return filepath.Join(m.dir, m.Name+".qmp") }

// machine returns the n-th machine of a lab in dir, of 1 to MaxMachines.
func machine(dir string, n int) *Machine {
	digit := strconv.Itoa(n)
	return &Machine{
		Name:      "vm" + digit,
		Underlay:  netip.MustParseAddr("198.18.77." + digit),
		Underlay6: netip.MustParseAddr("fd77::" + digit),
		dir:       dir,
	}
}

// Files in the folder of a lab.
const (
	machinesFile = "machines.json"
	keyFile      = "id_ed25519"
	hostKeyFile  = "host_key.pub"
	wireFile     = "wire" // the socket of the machines' own network
)

func save(dir string, machines []*Machine) error {
	content, err := json.Marshal(machines)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, machinesFile), content, 0o600)
}

func load(dir string) ([]*Machine, error) {
	content, err := os.ReadFile(filepath.Join(dir, machinesFile))
	if err != nil {
		return nil, fmt.Errorf("find the VM lab: %w", err)
	}
	var machines []*Machine
	if err := json.Unmarshal(content, &machines); err != nil {
		return nil, fmt.Errorf("find the VM lab: %w", err)
	}
	for _, m := range machines {
		m.dir = dir
	}
	return machines, nil
}
