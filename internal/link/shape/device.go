package shape

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/link"
)

// route returns where packets to an address leave.
func (s *shaper) route(to netip.Addr) (link.Path, error) {
	routes, err := netlink.RouteGet(to.AsSlice())
	if err != nil || len(routes) == 0 {
		return link.Path{}, fmt.Errorf("find the route to %s: %w", to, errors.Join(err))
	}
	device, err := netlink.LinkByIndex(routes[0].LinkIndex)
	if err != nil {
		return link.Path{}, fmt.Errorf("find the route to %s: %w", to, err)
	}
	if device.Attrs().Name == "lo" {
		return link.Path{}, fmt.Errorf("%s is an address of this host itself; name the address of the other host", to)
	}
	source, _ := netip.AddrFromSlice(routes[0].Src)
	found := link.Path{Device: device.Attrs().Name, Source: source.Unmap()}
	if device.Type() != "tuntap" && device.Type() != "tun" {
		return found, nil
	}
	// The network of a local host is a TUN device as well, by which everything
	// leaves.
	all, err := netlink.RouteList(device, netlink.FAMILY_ALL)
	if err != nil {
		return link.Path{}, fmt.Errorf("list the routes of device %s: %w", found.Device, err)
	}
	found.Overlay = !slices.ContainsFunc(all, func(r netlink.Route) bool {
		if r.Dst == nil {
			return true
		}
		ones, _ := r.Dst.Mask.Size()
		return ones == 0
	})
	return found, nil
}

// sshPort is the port of the SSH server by which whoever asks came here, 0 for
// none: sudo hides it, so the processes above this one are asked as well.
func sshPort() uint16 {
	for pid := os.Getpid(); pid > 1; {
		folder := filepath.Join("/proc", strconv.Itoa(pid))
		environment, err := os.ReadFile(filepath.Join(folder, "environ"))
		if err != nil {
			return 0
		}
		for variable := range bytes.SplitSeq(environment, []byte{0}) {
			// SSH_CONNECTION=CLIENT PORT SERVER PORT
			if fields := strings.Fields(string(variable)); len(fields) == 4 && strings.HasPrefix(fields[0], "SSH_CONNECTION=") {
				if port, err := strconv.ParseUint(fields[3], 10, 16); err == nil {
					return uint16(port)
				}
			}
		}
		status, err := os.ReadFile(filepath.Join(folder, "status"))
		if err != nil {
			return 0
		}
		parent := 0
		for line := range strings.Lines(string(status)) {
			if value, ok := strings.CutPrefix(line, "PPid:"); ok {
				parent, _ = strconv.Atoi(strings.TrimSpace(value))
			}
		}
		pid = parent
	}
	return 0
}

// offload is something that makes packets of a device larger than its MTU,
// and ethtool's commands to read and to set it.
type offload struct {
	name     string
	get, set uint32
}

var offloads = []offload{
	{"tso", 0x1e, 0x1f},
	{"gso", 0x23, 0x24},
}

// offloadsOn returns what is on of what makes large packets. While a device has
// a link it is off, since a loss or a place in a queue would be that of many
// packets.
func offloadsOn(device string) ([]string, error) {
	var on []string
	for _, o := range offloads {
		value, err := ethtool(device, o.get, 0)
		if err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
			return nil, fmt.Errorf("%s: %w", o.name, err)
		}
		if err == nil && value != 0 {
			on = append(on, o.name)
		}
	}
	return on, nil
}

// setOffloads turns offloads on or off, by 1 or 0. One that is fixed stays.
func setOffloads(device string, names []string, value uint32) error {
	for _, o := range offloads {
		if slices.Contains(names, o.name) {
			if _, err := ethtool(device, o.set, value); err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
				return fmt.Errorf("%s: %w", o.name, err)
			}
		}
	}
	return nil
}

// ethtool carries out a command that reads or sets one value.
func ethtool(device string, command, value uint32) (uint32, error) {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(socket)
	data := [2]uint32{command, value}
	request := struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}{data: unsafe.Pointer(&data)}
	copy(request.name[:unix.IFNAMSIZ-1], device)
	if _, _, number := unix.Syscall(unix.SYS_IOCTL, uintptr(socket), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request))); number != 0 {
		return 0, number
	}
	return data[1], nil
}
