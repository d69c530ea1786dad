package daemon

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/underlay"
)

// txQueue is how many packets the kernel holds for the daemon to read. The
// default of 500 overflows when TCP sends a window at once.
const txQueue = 10_000

// within does work in a host's network namespace.
func within(namespace string, work func() error) error {
	done := make(chan error)
	go func() {
		// The thread is left in the namespace and ends with the goroutine,
		// since it is never unlocked.
		runtime.LockOSThread()
		done <- enter(namespace, work)
	}()
	return <-done
}

func enter(namespace string, work func() error) error {
	file, err := os.Open(namespace)
	if err != nil {
		return fmt.Errorf("open the network namespace: %w", err)
	}
	defer file.Close()
	if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter %s: %w", namespace, err)
	}
	return work()
}

// openTUN makes the port's device in its host's network namespace and returns
// the descriptor, non-blocking. The device goes when the descriptor is closed.
func openTUN(port underlay.Port, mtu int) (fd int, err error) {
	err = within(port.Namespace, func() (err error) {
		fd, err = makeTUN(port, mtu)
		return err
	})
	return fd, err
}

// makeTUN makes the device in the namespace of the calling thread.
func makeTUN(port underlay.Port, mtu int) (fd int, err error) {
	fd, err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1, fmt.Errorf("open /dev/net/tun: %w", err)
	}
	defer func() {
		if err != nil {
			unix.Close(fd)
		}
	}()
	request, err := unix.NewIfreq(port.Device)
	if err != nil {
		return -1, fmt.Errorf("device %q: a name has 1 to 15 bytes", port.Device)
	}
	request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI | unix.IFF_VNET_HDR | unix.IFF_TUN_EXCL)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		return -1, fmt.Errorf("make device %q: %w", port.Device, err)
	}
	const offloads = unix.TUN_F_CSUM | unix.TUN_F_TSO4 | unix.TUN_F_TSO6
	if unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, offloads|unix.TUN_F_USO4|unix.TUN_F_USO6) != nil {
		// UDP segmentation came with Linux 6.2.
		if err := unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, offloads); err != nil {
			return -1, fmt.Errorf("set offloads of device %q: %w", port.Device, err)
		}
	}
	return fd, configureDevice(port, mtu)
}

// configureDevice sets the device up in the namespace of the calling thread.
func configureDevice(port underlay.Port, mtu int) error {
	handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer handle.Close()
	link, err := handle.LinkByName(port.Device)
	if err != nil {
		return fmt.Errorf("find device %q: %w", port.Device, err)
	}
	address := &netlink.Addr{IPNet: ipNet(port.Address)}
	if port.Address.Addr().Is6() {
		address.Flags = unix.IFA_F_NODAD
	}
	err = errors.Join(
		handle.LinkSetMTU(link, mtu),
		handle.LinkSetTxQLen(link, txQueue),
		handle.AddrReplace(link, address),
		handle.LinkSetUp(link),
	)
	if err == nil && port.DefaultRoute {
		anywhere := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
		if port.Address.Addr().Is6() {
			anywhere = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
		}
		err = handle.RouteReplace(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(anywhere), Scope: netlink.SCOPE_LINK})
	}
	if err != nil {
		return fmt.Errorf("configure device %q: %w", port.Device, err)
	}
	return nil
}

// setMTU changes the longest packet of the port's device.
func setMTU(port underlay.Port, mtu int) error {
	return within(port.Namespace, func() error {
		handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		defer handle.Close()
		link, err := handle.LinkByName(port.Device)
		if err != nil {
			return fmt.Errorf("find device %q: %w", port.Device, err)
		}
		return handle.LinkSetMTU(link, mtu)
	})
}

func ipNet(prefix netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: prefix.Addr().AsSlice(), Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen())}
}
