package systemd

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
)

// specKey holds the service as it was asked for, in a section of the unit that
// is not systemd's. It tells the testbed's units from all others.
const (
	section = "[X-Testbed]"
	specKey = "Service="
)

// revisionKey is a variable of the service's processes that holds a digest of
// the unit that they were started by, so that a restart that was due and did
// not happen is made up for.
const revisionKey = "TESTBED_UNIT"

// validName keeps to what needs no escaping in a unit's name.
var validName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_-]*$`)

func unitName(service string) string { return service + ".service" }

// render returns the unit of a service and its revision.
func render(s host.Service) (unit, revision string, err error) {
	if !validName.MatchString(s.Name) || len(s.Argv) == 0 {
		return "", "", fmt.Errorf("service %q: it needs a name of letters, digits, - and _, and a command", s.Name)
	}
	for _, text := range append(append([]string{s.Dir}, s.Argv...), s.Env...) {
		if strings.ContainsRune(text, 0) {
			return "", "", fmt.Errorf("service %q: a unit cannot hold a zero byte", s.Name)
		}
	}
	spec, err := json.Marshal(s)
	if err != nil {
		return "", "", err
	}
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# Made by terraform-provider-testbed, which undoes changes at the next apply.")
	line("[Unit]")
	line("Description=%s of a testbed", s.Name)
	line("Wants=network-online.target")
	line("After=network-online.target")
	if len(s.After) > 0 {
		line("After=%s", units(s.After))
	}
	if len(s.Requires) > 0 {
		line("Requires=%s", units(s.Requires))
		line("After=%s", units(s.Requires))
	}
	line("StartLimitIntervalSec=0")
	line("")
	line("[Service]")
	line("Type=exec")
	line("ExecStart=%s", command(s.Argv))
	for _, variable := range append([]string{"HOME=/root", "LANG=C.UTF-8"}, s.Env...) {
		line("Environment=%s", quote(variable, false))
	}
	if s.Dir != "" {
		line("WorkingDirectory=%s", strings.ReplaceAll(s.Dir, "%", "%%"))
	}
	line("Restart=always")
	line("RestartSec=1s")
	line("TimeoutStopSec=10s")
	line("LimitNOFILE=1048576")
	line("TasksMax=infinity")
	line("UMask=0022")
	if s.KillMode != "" {
		line("KillMode=%s", s.KillMode)
	}
	if s.KillMode == "process" {
		line("Delegate=yes") // its own processes are in groups of its own
		line("OOMScoreAdjust=-999")
	}
	if s.Confine != nil {
		for _, entry := range confine(*s.Confine) {
			line("%s", entry)
		}
	}
	sum := sha256.Sum256([]byte(b.String()))
	revision = hex.EncodeToString(sum[:8])
	line("Environment=%s=%s", revisionKey, revision)
	line("")
	line("[Install]")
	line("WantedBy=multi-user.target")
	line("")
	line("%s", section)
	line("%s%s", specKey, spec)
	return b.String(), revision, nil
}

// units returns the names of units of services; names of other kinds of units
// have a dot.
func units(names []string) string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = name
		if !strings.Contains(name, ".") {
			all[i] = unitName(name)
		}
	}
	return strings.Join(all, " ")
}

// confine takes from a service all that it does not ask for.
func confine(c host.Confinement) []string {
	capabilities := strings.Join(c.Capabilities, " ")
	lines := []string{
		"CapabilityBoundingSet=" + capabilities,
		"AmbientCapabilities=" + capabilities,
		"NoNewPrivileges=yes",
		"ProtectSystem=strict",
		"ProtectHome=yes",
		"PrivateTmp=yes",
		"ProtectClock=yes",
		"ProtectControlGroups=yes",
		"ProtectHostname=yes",
		"ProtectKernelLogs=yes",
		"ProtectKernelTunables=yes",
		"ProtectKernelModules=yes",
		"LockPersonality=yes",
		"MemoryDenyWriteExecute=yes",
		"RestrictNamespaces=yes",
		"RestrictRealtime=yes",
		"RestrictSUIDSGID=yes",
		"RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK",
		"SystemCallArchitectures=native",
		"SystemCallFilter=@system-service",
		"DevicePolicy=closed",
	}
	for _, device := range c.Devices {
		lines = append(lines, "DeviceAllow="+device+" rw")
	}
	for _, folder := range c.Writes {
		if name, ok := strings.CutPrefix(folder, "/run/"); ok {
			lines = append(lines, "RuntimeDirectory="+name) // made before, removed after
		} else {
			lines = append(lines, "ReadWritePaths=-"+folder)
		}
	}
	return lines
}

// command quotes an argv as ExecStart reads it. The program's own name is not
// expanded.
func command(argv []string) string {
	quoted := make([]string, len(argv))
	for i, arg := range argv {
		quoted[i] = quote(arg, i > 0)
	}
	return strings.Join(quoted, " ")
}

// quote makes a text one word that systemd neither splits nor expands.
func quote(text string, variables bool) string {
	replace := []string{`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`, "\r", `\r`, "%", "%%"}
	if variables {
		replace = append(replace, "$", "$$")
	}
	return `"` + strings.NewReplacer(replace...).Replace(text) + `"`
}

// parse returns the service that a unit was rendered from. It is false for a
// unit that the testbed did not make.
func parse(unit string) (host.Service, bool) {
	_, own, ok := strings.Cut(unit, "\n"+section+"\n")
	if !ok {
		return host.Service{}, false
	}
	text, ok := strings.CutPrefix(own, specKey)
	if !ok {
		return host.Service{}, false
	}
	var spec host.Service
	err := json.Unmarshal([]byte(strings.TrimSpace(text)), &spec)
	return spec, err == nil
}
