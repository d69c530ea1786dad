package shape

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/link"
)

// rehearsal is what is tried in a network namespace that is made for it.
type rehearsal struct {
	Part *link.Part `json:"part,omitempty"`
	Root *snapshot  `json:"root,omitempty"`
}

// verdict is how a rehearsal went.
type verdict struct {
	Lacks []link.Lack `json:"lacks,omitempty"`
	Error string      `json:"error,omitempty"`
}

// lacks prints what keeps the host from doing the part: programs and modules
// that are missing, or what the kernel says of the part itself.
func (s *shaper) lacks(part link.Part) error {
	found := []link.Lack{}
	for _, program := range []string{"tc", "ip"} {
		if _, err := exec.LookPath(program); err != nil {
			if _, err := os.Stat("/usr/sbin/" + program); err != nil {
				found = append(found, link.Lack{What: "the program " + program + " is not installed", Fix: system().install("iproute2", "iproute")})
			}
		}
	}
	if len(found) > 0 {
		return printed(found)
	}
	v, err := s.rehearsed(rehearsal{Part: &part})
	if err != nil {
		return err
	}
	found = append(found, v.Lacks...)
	if v.Error != "" && len(found) == 0 {
		found = append(found, link.Lack{What: v.Error})
	}
	return printed(found)
}

// rehearseRestore tells whether a root can be put back as it is.
func (s *shaper) rehearseRestore(root *snapshot) error {
	if root.filters {
		return errors.New("it has filters")
	}
	v, err := s.rehearsed(rehearsal{Root: root})
	if err == nil && v.Error != "" {
		err = errors.New(v.Error)
	}
	return err
}

// rehearsed runs a rehearsal in a namespace of its own, of which nothing is
// left afterwards.
func (s *shaper) rehearsed(r rehearsal) (verdict, error) {
	self, err := os.Executable()
	if err != nil {
		return verdict{}, err
	}
	text, err := json.Marshal(r)
	if err != nil {
		return verdict{}, err
	}
	var stdout, stderr bytes.Buffer
	command := exec.CommandContext(s.ctx, self, "shape", "rehearse")
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	command.Stdin, command.Stdout, command.Stderr = bytes.NewReader(text), &stdout, &stderr
	if err := command.Run(); err != nil {
		return verdict{}, fmt.Errorf("rehearse in a network namespace: %w: %s", err, strings.TrimSpace(stderr.String()))
	}
	var v verdict
	return v, json.Unmarshal(stdout.Bytes(), &v)
}

// stage is the device of rehearsals.
const stage = "lo"

// rehearse runs in the namespace and prints how it goes.
func (s *shaper) rehearse(stdin io.Reader) error {
	var r rehearsal
	if err := json.NewDecoder(stdin).Decode(&r); err != nil {
		return err
	}
	if r.Root != nil {
		var v verdict
		if err := r.Root.restore(stage); err != nil {
			v.Error = err.Error()
		} else if again, err := take(stage); err != nil {
			v.Error = err.Error()
		} else if !again.equal(r.Root) {
			v.Error = "the kernel would make " + again.describe() + " of it"
		}
		return printed(v)
	}
	folder, err := os.MkdirTemp("", "testbed-rehearsal-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	s.record = filepath.Join(folder, "links.json")
	return printed(s.rehearsePart(*r.Part))
}

func (s *shaper) rehearsePart(part link.Part) verdict {
	var v verdict
	for _, kind := range kindsOfLinks(part) {
		if err := s.try(kind); err != nil {
			v.Lacks = append(v.Lacks, lackOf(kind, err))
		}
	}
	if len(v.Lacks) > 0 {
		return v
	}
	part.KeepOffloads = true // the stage has none that matter
	err := s.setOn(stage, part)
	var shaped link.Shaped
	if err == nil {
		shaped, err = s.observe(part.Link)
	}
	switch {
	case err != nil:
		v.Error = err.Error()
	case part.Egress != nil && (shaped.Egress == nil || !shaped.Egress.Equal(*part.Egress)),
		part.Ingress != nil && (shaped.Ingress == nil || !shaped.Ingress.Equal(*part.Ingress)):
		v.Error = "the kernel makes something else of the profile"
	}
	return v
}

// try uses one part of the kernel, which loads its module if need be.
func (s *shaper) try(kind string) error {
	switch kind {
	case "sch_htb":
		return s.tryOn(func(device string) error { return s.addRoot(device) })
	case "cls_u32":
		return s.tryOn(func(device string) error {
			if err := s.tc("qdisc", "add", "dev", device, "ingress"); err != nil {
				return s.onHTB(device)
			}
			defer func() { _ = s.tc("qdisc", "del", "dev", device, "ingress") }()
			return s.tc("filter", "add", "dev", device, "parent", ingressParent, "protocol", "ip", "pref", "1", "u32", "match", "u32", "0", "0", "flowid", ":1")
		})
	case "sch_netem":
		return s.tryOn(func(device string) error { return s.tc("qdisc", "add", "dev", device, "root", "netem", "delay", "1ms") })
	case "ifb":
		err := s.ip("link", "add", "try", "type", "ifb")
		if err == nil {
			err = s.ip("link", "del", "try")
		}
		return err
	case "sch_ingress":
		return s.tryOn(func(device string) error {
			err := s.tc("qdisc", "add", "dev", device, "ingress")
			if err == nil {
				err = s.tc("qdisc", "del", "dev", device, "ingress")
			}
			return err
		})
	case "act_mirred":
		if err := s.tc("actions", "add", "action", "mirred", "egress", "redirect", "dev", stage); err != nil {
			return err
		}
		return s.tc("actions", "flush", "action", "mirred")
	}
	return nil
}

// onHTB tries a filter below our root.
func (s *shaper) onHTB(device string) error {
	if err := s.addRoot(device); err != nil {
		return err
	}
	return s.tc("filter", "add", "dev", device, "parent", rootHandle, "protocol", "ip", "pref", "1", "u32", "match", "u32", "0", "0", "flowid", rootHandle+"0")
}

// tryOn tries something on the stage, and leaves its root as it was.
func (s *shaper) tryOn(try func(device string) error) error {
	err := try(stage)
	if root, rootErr := s.root(stage); rootErr == nil && !root.isDefault() {
		_ = s.tc("qdisc", "del", "dev", stage, "root")
	}
	return err
}

// words say what a part of the kernel is.
var words = map[string]string{
	"sch_htb":     "the HTB queueing discipline",
	"sch_netem":   "the netem queueing discipline",
	"cls_u32":     "the u32 filter",
	"ifb":         "ifb devices",
	"sch_ingress": "the ingress queueing discipline",
	"act_mirred":  "the mirred action",
}

func lackOf(kind string, err error) link.Lack {
	what := fmt.Sprintf("the kernel does not have %s, %s (%s)", words[kind], kind, errorText(err))
	if strings.Contains(errorText(err), "not permitted") {
		return link.Lack{What: what, Fix: "work on the host as root"}
	}
	return link.Lack{What: what, Fix: system().module(kind)}
}

// distribution is whose packages a host has.
type distribution struct {
	ids    string // ID and ID_LIKE of os-release
	kernel string // uname -r
}

func system() distribution {
	var d distribution
	text, err := os.ReadFile("/etc/os-release")
	if err == nil {
		for line := range strings.Lines(string(text)) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			if name == "ID" || name == "ID_LIKE" {
				d.ids += " " + strings.Trim(value, `"`)
			}
		}
	}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		d.kernel = unix.ByteSliceToString(name.Release[:])
	}
	return d
}

func (d distribution) is(ids ...string) bool {
	for _, id := range strings.Fields(d.ids) {
		for _, wanted := range ids {
			if id == wanted {
				return true
			}
		}
	}
	return false
}

// install is the command that installs a package, by its name on Debian and on
// Fedora.
func (d distribution) install(debian, fedora string) string {
	switch {
	case d.is("fedora", "rhel", "centos"):
		return "dnf install " + fedora
	case d.is("alpine"):
		return "apk add " + debian
	case d.is("arch"):
		return "pacman -S " + debian
	case d.is("suse", "opensuse"):
		return "zypper install " + debian
	}
	return "apt-get install " + debian
}

// module is what gives the kernel a module.
func (d distribution) module(name string) string {
	load := "modprobe " + name
	switch {
	case strings.Contains(strings.ToLower(d.kernel), "microsoft"):
		return "the kernel of WSL2 comes without it: build one with it, or use local hosts on a network, whose links need no kernel"
	case d.is("ubuntu"):
		return load + ", or apt-get install linux-modules-extra-" + d.kernel
	case d.is("fedora", "rhel", "centos"):
		return load + ", or dnf install kernel-modules-extra-" + d.kernel
	case d.is("raspbian"):
		return load + ", or apt-get install --reinstall raspberrypi-kernel and restart"
	case d.is("debian"):
		return load + ", or apt-get install linux-image-" + d.flavour() + " and restart into it"
	}
	return load + ", or install the kernel's package of further modules"
}

// flavour is the end of Debian's kernel names: a package of the kernel that
// has all modules.
func (d distribution) flavour() string {
	for _, flavour := range []string{"cloud-amd64", "cloud-arm64", "rt-amd64", "rt-arm64", "armmp-lpae", "armmp", "rpi-v8", "rpi-v7", "amd64", "arm64"} {
		if strings.HasSuffix(d.kernel, "-"+flavour) {
			return flavour
		}
	}
	switch {
	case strings.Contains(d.kernel, "rpi"):
		return "rpi-v8"
	}
	return unameMachine()
}

// unameMachine is Debian's name of the kernel's architecture.
func unameMachine() string {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return "amd64"
	}
	switch machine := unix.ByteSliceToString(name.Machine[:]); machine {
	case "x86_64":
		return "amd64"
	case "aarch64":
		return "arm64"
	case "armv7l":
		return "armmp"
	default:
		return machine
	}
}
