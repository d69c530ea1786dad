package k3s

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
)

// device is a network interface of a host.
type device struct {
	Name      string `json:"ifname"`
	Index     int    `json:"ifindex"`
	Link      string `json:"link_type"` // "none" for a tunnel of IP packets
	Addresses []struct {
		Local netip.Addr `json:"local"`
	} `json:"addr_info"`
}

type devices []device

func listDevices(ctx context.Context, h host.Host) (devices, error) {
	output, err := h.Run(ctx, host.Command{Argv: []string{"ip", "-json", "address"}})
	if err != nil {
		return nil, fmt.Errorf("list the addresses of %s: %w", h.URL(), err)
	}
	var found devices
	if err := json.Unmarshal(output.Stdout, &found); err != nil {
		return nil, fmt.Errorf("list the addresses of %s: %w", h.URL(), err)
	}
	return found, nil
}

// index returns the index of an interface, and 0 when there is none.
func (d devices) index(name string) int {
	for _, device := range d {
		if device.Name == name {
			return device.Index
		}
	}
	return 0
}

// tunnel reports whether an address is on a tunnel of IP packets, like those of
// overlays.
func (d devices) tunnel(ip netip.Addr) bool {
	at := d.at(ip)
	return at >= 0 && d[at].Link == "none"
}

// at returns which interface has an address, or -1.
func (d devices) at(ip netip.Addr) int {
	for i, device := range d {
		for _, address := range device.Addresses {
			if address.Local == ip {
				return i
			}
		}
	}
	return -1
}

func (d devices) String() string {
	var all []string
	for _, device := range d {
		for _, address := range device.Addresses {
			all = append(all, fmt.Sprintf("%s on %s", address.Local, device.Name))
		}
	}
	return strings.Join(all, ", ")
}

// check finds out early what k3s would fail on late, or never.
func (n node) check(ctx context.Context, h host.Host, found devices) error {
	if found.at(n.ip) < 0 {
		return &InputError{"node_ip", fmt.Errorf("%s has no address %s; it has %s", h.URL(), n.ip, found)}
	}
	at := slices.IndexFunc(found, func(d device) bool { return d.Name == n.device })
	if n.device != "" && at < 0 {
		return &InputError{"interface", fmt.Errorf("%s has no interface %q; it has %s", h.URL(), n.device, found)}
	}
	if n.device != "" && found[at].Link == "none" && n.settings["flannel-backend"] == "host-gw" {
		return &InputError{"config", fmt.Errorf(
			"flannel-backend host-gw sends pods' packets to the next node's link address, and the interface %s of %s is a tunnel without any; "+
				"leave flannel-backend out, which makes it vxlan", n.device, h.URL())}
	}
	return checkMemory(ctx, h)
}

// checkMemory refuses a host without the memory controller, on which the
// kubelet does not start. That is how Raspberry Pi OS comes.
func checkMemory(ctx context.Context, h host.Host) error {
	missing, err := lacksMemory(ctx, h)
	if err != nil {
		return fmt.Errorf("look for the memory controller of %s: %w", h.URL(), err)
	}
	if !missing {
		return nil
	}
	return &InputError{"host", fmt.Errorf(
		"the kernel of %s has its memory control group switched off, without which k3s does not start; "+
			"on a Raspberry Pi append \" cgroup_memory=1 cgroup_enable=memory\" to the one line of /boot/firmware/cmdline.txt "+
			"(of /boot/cmdline.txt up to Debian 11) and reboot, "+
			"elsewhere take cgroup_disable=memory off the kernel's command line", h.URL())}
}

// lacksMemory reports whether the kernel says that there is no memory
// controller. One that says nothing is taken to have it.
func lacksMemory(ctx context.Context, h host.Host) (bool, error) {
	unified, err := h.Read(ctx, "/sys/fs/cgroup/cgroup.controllers")
	if err == nil {
		return !slices.Contains(strings.Fields(string(unified)), "memory"), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	legacy, err := h.Read(ctx, "/proc/cgroups")
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for line := range strings.Lines(string(legacy)) {
		// name, hierarchy, number of groups, enabled
		if fields := strings.Fields(line); len(fields) == 4 && fields[0] == "memory" {
			return fields[3] == "0", nil
		}
	}
	return true, nil
}
