//go:build linux

package sweep

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// mounts returns the mount points of k3s, the first mounted first.
func mounts() ([]string, error) {
	content, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var points []string
	for line := range strings.Lines(string(content)) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		point := unescape.Replace(fields[4])
		for _, prefix := range []string{"/run/k3s/", "/var/lib/rancher/", "/var/lib/kubelet/", "/run/netns/cni-"} {
			if strings.HasPrefix(point, prefix) {
				points = append(points, point)
			}
		}
	}
	return points, nil
}

// unmount detaches the last mounted first. A mount that went with the one it
// lay on is no error.
func unmount() error {
	points, err := mounts()
	if err != nil {
		return err
	}
	for _, point := range slices.Backward(points) {
		err := unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("unmount %s: %w", point, err)
		}
	}
	left, err := mounts()
	if err == nil && len(left) > 0 {
		// Removing files now would remove what is mounted.
		err = fmt.Errorf("unmount %s: it is still there", left[0])
	}
	return err
}

// removeNamespaces removes the names of pods' network namespaces.
func removeNamespaces() error {
	names, err := filepath.Glob("/run/netns/cni-*")
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	return nil
}

// links returns the network devices of pods, flannel and kube-proxy, those of
// pods first.
func links() ([]netlink.Link, error) {
	all, err := netlink.LinkList()
	for errors.Is(err, netlink.ErrDumpInterrupted) {
		// The kernel is still taking pods' links down, of which there is an end.
		all, err = netlink.LinkList()
	}
	if err != nil {
		return nil, fmt.Errorf("list the links: %w", err)
	}
	own := []string{"cni0", "flannel.1", "flannel-v6.1", "flannel-wg", "flannel-wg-v6", "kube-ipvs0"}
	bridge := -1
	for _, link := range all {
		if link.Attrs().Name == "cni0" {
			bridge = link.Attrs().Index
		}
	}
	var ports, found []netlink.Link
	for _, link := range all {
		switch {
		case link.Attrs().MasterIndex == bridge:
			ports = append(ports, link)
		case slices.Contains(own, link.Attrs().Name):
			found = append(found, link)
		}
	}
	return append(ports, found...), nil
}

func removeLinks() error {
	found, err := links()
	if err != nil {
		return err
	}
	for _, link := range found {
		var absent netlink.LinkNotFoundError
		err := netlink.LinkDel(link)
		if err != nil && !errors.As(err, &absent) && !errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("remove link %s: %w", link.Attrs().Name, err)
		}
	}
	return nil
}

// removeRules removes the packet filter rules of kube-proxy, flannel, the CNI
// plugins and the network policies, from nftables and from iptables.
func removeRules(ctx context.Context) error {
	return errors.Join(removeTables(ctx), removeChains(ctx, "iptables"), removeChains(ctx, "ip6tables"))
}

// removeTables removes whole nftables tables that bear the components' names.
func removeTables(ctx context.Context) error {
	listed, err := run(ctx, "", "nft", "-j", "list", "tables")
	if err != nil || len(listed) == 0 {
		return err
	}
	var tables struct {
		Nftables []struct {
			Table *struct{ Family, Name string }
		}
	}
	if err := json.Unmarshal(listed, &tables); err != nil {
		return fmt.Errorf("list the nftables tables: %w", err)
	}
	names := []string{"kube-proxy", "k3s-pods", "cni_hostport", "cni_plugins_masquerade"}
	var script strings.Builder
	for _, entry := range tables.Nftables {
		if entry.Table != nil && slices.Contains(names, entry.Table.Name) {
			fmt.Fprintf(&script, "delete table %s %s\n", entry.Table.Family, entry.Table.Name)
		}
	}
	if script.Len() == 0 {
		return nil
	}
	_, err = run(ctx, script.String(), "nft", "-f", "-")
	return err
}

// removeChains removes the components' chains and the rules that lead there,
// and leaves all others as they are.
func removeChains(ctx context.Context, tool string) error {
	saved, err := run(ctx, "", tool+"-save")
	if err != nil {
		return err
	}
	script := chainRemoval(string(saved))
	if script == "" {
		return nil
	}
	_, err = run(ctx, script, tool+"-restore", "--noflush")
	return err
}

// chainRemoval turns what iptables-save printed into input of iptables-restore
// --noflush that removes our chains.
func chainRemoval(saved string) string {
	var script, rules, flushed, removed strings.Builder
	for line := range strings.Lines(saved) {
		switch {
		case strings.HasPrefix(line, "*"):
			script.WriteString(line)
		case strings.HasPrefix(line, ":"):
			name, _, _ := strings.Cut(line[1:], " ")
			if ownChain(name) {
				fmt.Fprintf(&flushed, "-F %s\n", name)
				fmt.Fprintf(&removed, "-X %s\n", name)
			}
		case strings.HasPrefix(line, "-A "):
			fields := strings.Fields(line)
			target := slices.IndexFunc(fields, func(f string) bool { return f == "-j" || f == "-g" })
			if !ownChain(fields[1]) && target > 0 && target+1 < len(fields) && ownChain(fields[target+1]) {
				rules.WriteString("-D" + strings.TrimPrefix(line, "-A"))
			}
		case strings.HasPrefix(line, "COMMIT"):
			script.WriteString(rules.String() + flushed.String() + removed.String() + line)
			rules.Reset()
			flushed.Reset()
			removed.Reset()
		}
	}
	if !strings.Contains(script.String(), "-X ") {
		return ""
	}
	return script.String()
}

func ownChain(name string) bool {
	return strings.HasPrefix(name, "KUBE-") || strings.HasPrefix(name, "CNI-") || strings.HasPrefix(name, "FLANNEL-")
}

// run runs a tool. One that is not installed has made no rules.
func run(ctx context.Context, stdin string, argv ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, argv[0], argv[1:]...)
	command.Stdin = strings.NewReader(stdin)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	output, err := command.Output()
	if errors.Is(err, exec.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, strings.TrimSpace(stderr.String()))
	}
	return output, nil
}
