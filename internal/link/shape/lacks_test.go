package shape

import (
	"strings"
	"testing"
)

func TestFixes(t *testing.T) {
	for _, test := range []struct{ ids, kernel, module, program string }{
		{"debian", "6.1.0-41-cloud-amd64", "modprobe sch_netem, or apt-get install linux-image-cloud-amd64 and restart into it", "apt-get install iproute2"},
		{"debian", "6.12.25+rpt-rpi-v8", "modprobe sch_netem, or apt-get install linux-image-rpi-v8 and restart into it", "apt-get install iproute2"},
		{"ubuntu debian", "6.8.0-45-generic", "modprobe sch_netem, or apt-get install linux-modules-extra-6.8.0-45-generic", "apt-get install iproute2"},
		{"rocky rhel centos fedora", "5.14.0-503.el9.x86_64", "modprobe sch_netem, or dnf install kernel-modules-extra-5.14.0-503.el9.x86_64", "dnf install iproute"},
		{"ubuntu debian", "5.15.167.4-microsoft-standard-WSL2", "the kernel of WSL2 comes without it", "apt-get install iproute2"},
		{"alpine", "6.6.31-0-lts", "modprobe sch_netem, or install the kernel's package of further modules", "apk add iproute2"},
		{"", "6.6", "modprobe sch_netem, or install", "apt-get install iproute2"},
	} {
		d := distribution{ids: test.ids, kernel: test.kernel}
		if got := d.module("sch_netem"); !strings.HasPrefix(got, test.module) {
			t.Errorf("module on %s %s: %s", test.ids, test.kernel, got)
		}
		if got := d.install("iproute2", "iproute"); got != test.program {
			t.Errorf("program on %s: %s", test.ids, got)
		}
	}
}

func TestExplain(t *testing.T) {
	for text, want := range map[string]string{
		`What is "seed"?`: "remove seed from the profile",
		"Error: netem: cannot mix duplicating netems with other netems in tree.": "let the host have one link there",
		"Error: Exclusivity flag on, cannot modify.":                             "Exclusivity",
	} {
		if err := explain(&stepError{argv: []string{"tc"}, text: text}); !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
