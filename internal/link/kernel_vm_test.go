package link_test

import (
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/ssh"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/vmtest"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/link"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/link/linktest"
)

// vmLinks are links between two machines of the VM lab, whose kernels have
// netem.
func vmLinks(t *testing.T) (link.Links, link.Spec, []*vmtest.Machine) {
	t.Helper()
	machines := vmtest.Lab(t, 2)
	key, err := os.ReadFile(machines[0].KeyFile())
	if err != nil {
		t.Fatal(err)
	}
	opener := ssh.NewOpener(ssh.Config{PrivateKey: string(key), SkipHostKeys: true})
	t.Cleanup(func() {
		if err := opener.Close(); err != nil {
			t.Error(err)
		}
	})
	return link.Links{Hosts: opener}, link.Spec{
		Link:    link.Link{Place: link.Underlay, A: machines[0].URL("root"), B: machines[1].URL("admin")},
		Shaping: link.Shaping{Addresses: [2][]netip.Addr{{machines[0].Underlay, machines[0].Underlay6}, {machines[1].Underlay, machines[1].Underlay6}}},
	}, machines
}

// disciplines are all queueing disciplines, classes and filters of a machine's
// device, and its features.
func disciplines(t *testing.T, m *vmtest.Machine) string {
	t.Helper()
	text, err := m.Shell(t.Context(), `tc qdisc show; for d in eth0 eth1; do tc class show dev $d; tc filter show dev $d; tc filter show dev $d ingress; done
ip -brief link show type ifb; ls /run/testbed/links.json 2>/dev/null || true`)
	if err != nil {
		t.Fatal(err)
	}
	return directPackets.ReplaceAllString(text, "")
}

// TestVMLinkConformance runs the suite of all links on kernels.
func TestVMLinkConformance(t *testing.T) {
	links, spec, machines := vmLinks(t)
	before := [2]string{disciplines(t, machines[0]), disciplines(t, machines[1])}
	linktest.Run(t, links, spec)
	if diff := cmp.Diff(before, [2]string{disciplines(t, machines[0]), disciplines(t, machines[1])}); diff != "" {
		t.Errorf("the links left something (-before +after):\n%s", diff)
	}
}

// TestVMLink shows what the suite does not: IPv6, both directions on one host,
// changes by hand, and a netem discipline of somebody else.
func TestVMLink(t *testing.T) {
	links, spec, machines := vmLinks(t)
	ctx := t.Context()
	before := [2]string{disciplines(t, machines[0]), disciplines(t, machines[1])}
	by := func(m *vmtest.Machine, script string) {
		t.Helper()
		if output, err := m.Shell(ctx, script); err != nil {
			t.Fatalf("%v: %s", err, output)
		}
	}
	// How long packets take is what the suite shows.
	verification := link.Verification{Packets: 50, Interval: 20 * time.Millisecond, RTTTolerance: time.Minute}

	spec.Profile = parse(t, `{"rtt":"20ms","corrupt":1,"rate":"100mbit"}`)
	if err := links.Lacks(ctx, spec); err != nil {
		t.Error(err)
	}
	for i := range spec.Shaping.Addresses { // IPv6 is measured
		a := spec.Shaping.Addresses[i]
		spec.Shaping.Addresses[i] = []netip.Addr{a[1], a[0]}
	}
	if err := links.Create(ctx, spec); err != nil {
		t.Fatal(err)
	}
	if m, err := links.Verify(ctx, spec.Link, spec.Profile, verification); err != nil {
		t.Errorf("over IPv6: %v", err)
	} else {
		t.Logf("over IPv6: RTT %s of a path of %s, wanted %s more", m.RTTMedian, m.BaseRTT, m.WantedRTT)
	}

	// What a change does not name would stay in the discipline.
	spec.Profile = parse(t, `{"rtt":"10ms","forward":{"jitter":"1ms","distribution":"paretonormal"}}`)
	if err := links.Apply(ctx, spec); err != nil {
		t.Fatal(err)
	}
	observed, err := links.Observe(ctx, spec.Link)
	if err != nil || !observed.Profile.Equal(spec.Profile) {
		t.Errorf("after a change %s, %v", observed.Profile.JSON(), err)
	}
	text, err := machines[0].Shell(ctx, "tc -j qdisc show dev eth1")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("tc tells %s", text)

	// A change by hand shows, and is repaired.
	by(machines[1], "tc qdisc change dev eth1 parent 7bed:1 netem delay 33ms")
	observed, err = links.Observe(ctx, spec.Link)
	if err != nil || observed.Profile.JSON() == spec.Profile.JSON() || observed.Profile.Reverse.Delay.String() != "33ms" {
		t.Errorf("after a change by hand %s, %v", observed.Profile.JSON(), err)
	}
	by(machines[0], "tc qdisc del dev eth1 root")
	if err := links.Apply(ctx, spec); err != nil {
		t.Fatal(err)
	}
	if observed, err = links.Observe(ctx, spec.Link); err != nil || !observed.Profile.Equal(spec.Profile) {
		t.Errorf("after the repair %s, %v", observed.Profile.JSON(), err)
	}

	// One host does it all.
	spec.Shaping.On, spec.Profile = spec.A, parse(t, `{"forward":{"delay":"4ms"},"reverse":{"delay":"12ms","loss":{"random":{"percent":20}}}}`)
	if err := links.Apply(ctx, spec); err != nil {
		t.Fatal(err)
	}
	verification.Packets = 150
	if m, err := links.Verify(ctx, spec.Link, spec.Profile, verification); err != nil {
		t.Errorf("on one host: %v", err)
	} else {
		t.Logf("on one host: RTT %s of a path of %s, wanted %s more; loss %.1f %% and %.1f %%", m.RTTMedian, m.BaseRTT, m.WantedRTT, m.ForwardLoss*100, m.ReverseLoss*100)
	}
	if diff := cmp.Diff(before[1], disciplines(t, machines[1])); diff != "" {
		t.Errorf("the other host is not what it was (-before +after):\n%s", diff)
	}
	if err := links.Remove(ctx, spec.Link); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, [2]string{disciplines(t, machines[0]), disciplines(t, machines[1])}); diff != "" {
		t.Errorf("the link left something (-before +after):\n%s", diff)
	}

	// Somebody else's netem, and one that is no default of any kernel.
	by(machines[0], "tc qdisc replace dev eth1 root handle 9: netem delay 3ms 1ms loss 1%")
	by(machines[1], "tc qdisc replace dev eth1 root handle 9: fq_codel limit 777")
	foreign := [2]string{disciplines(t, machines[0]), disciplines(t, machines[1])}
	spec.Shaping.On = ""
	if err := links.Create(ctx, spec); err == nil || !strings.Contains(err.Error(), "set replace_existing = true") {
		t.Errorf("over somebody else's: %v", err)
	}
	spec.Shaping.ReplaceExisting = true
	if err := links.Create(ctx, spec); err != nil {
		t.Fatal(err)
	}
	if err := links.Remove(ctx, spec.Link); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(foreign, [2]string{disciplines(t, machines[0]), disciplines(t, machines[1])}); diff != "" {
		t.Errorf("somebody else's is not what it was (-before +after):\n%s", diff)
	}
}
