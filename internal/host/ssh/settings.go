package ssh

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	sshconfig "github.com/kevinburke/ssh_config"
)

// settings are all that is needed for reaching one host and logging in.
type settings struct {
	target       Target // with user and port
	name         string // under which known_hosts has it, as the client knows it
	keys         keys
	jumps        []Target // to go through, in this order
	knownHosts   []string
	pinned       string // the host's key or its fingerprint, when it is pinned
	skipHostKeys bool
}

// settings finds the settings of a host: first what its URL says, then its
// record, then the opener's configuration, then the client's configuration
// file.
func (o *Opener) settings(target Target) (settings, error) {
	record, err := o.record(target)
	if err != nil {
		return settings{}, err
	}
	file, err := readConfig(o.config.ConfigFile)
	if err != nil {
		return settings{}, err
	}
	section := file.section(target.Address)
	if section.err != nil {
		return settings{}, fmt.Errorf("read %s: %w", o.config.ConfigFile, section.err)
	}
	if command := section.get("ProxyCommand"); command != "" && command != "none" {
		return settings{}, fmt.Errorf("read %s: ProxyCommand is set for %s and is not supported; set ProxyJump there, or bastion here", o.config.ConfigFile, target.Address)
	}
	found := settings{
		target:       Target{User: target.User, Address: first(section.get("HostName"), target.Address), Port: target.Port},
		pinned:       record.HostKey,
		knownHosts:   o.config.KnownHosts,
		skipHostKeys: o.config.SkipHostKeys,
	}
	found.target.Address = strings.ReplaceAll(found.target.Address, "%h", target.Address)
	if found.target.Port == 0 {
		if found.target.Port, err = parsePort(section.get("Port")); err != nil {
			return settings{}, fmt.Errorf("read %s: %w", o.config.ConfigFile, err)
		}
	}
	if found.target.User == "" {
		if found.target.User, err = o.user(section); err != nil {
			return settings{}, err
		}
	}
	found.name = first(section.get("HostKeyAlias"), found.target.Address)
	if found.jumps, err = parseJumps(first(record.Bastion, o.config.Bastion, section.get("ProxyJump"))); err != nil {
		return settings{}, fmt.Errorf("find the bastion of %s: %w", target, err)
	}
	found.keys = o.keys(section, record, found.target)
	return found, nil
}

func (o *Opener) user(section section) (string, error) {
	if name := first(o.config.User, section.get("User")); name != "" {
		return name, nil
	}
	current, err := user.Current()
	if err != nil {
		return "", fmt.Errorf("find who logs in: %w; name a user in the host's URL", err)
	}
	return current.Username, nil
}

// keys chooses the keys to log in with.
func (o *Opener) keys(section section, record Record, target Target) keys {
	chosen := keys{private: o.config.PrivateKey, passphrase: o.config.Passphrase, agent: o.config.AgentSocket, only: true}
	home, err := os.UserHomeDir()
	if err != nil {
		home = ""
	}
	expand := strings.NewReplacer("%d", home, "%h", target.Address, "%r", target.User, "%%", "%").Replace
	switch {
	case record.IdentityFile != "":
		chosen.private = ""
		chosen.files = []string{homed(record.IdentityFile, home)}
	case o.config.PrivateKey != "" || len(o.config.IdentityFiles) > 0:
		for _, file := range o.config.IdentityFiles {
			chosen.files = append(chosen.files, homed(file, home))
		}
	case len(section.all("IdentityFile")) > 0:
		for _, file := range section.all("IdentityFile") {
			chosen.files = append(chosen.files, homed(expand(file), home))
		}
		chosen.only = strings.EqualFold(section.get("IdentitiesOnly"), "yes")
	default:
		chosen.only, chosen.usual = false, true
		for _, name := range []string{"id_ed25519", "id_ecdsa", "id_rsa"} {
			chosen.files = append(chosen.files, filepath.Join(home, ".ssh", name))
		}
	}
	if socket := section.get("IdentityAgent"); socket != "" {
		chosen.agent = homed(expand(socket), home)
		switch socket {
		case "none":
			chosen.agent = ""
		case "SSH_AUTH_SOCK":
			chosen.agent = o.config.AgentSocket
		}
	}
	return chosen
}

// homed replaces a leading ~ by the home folder.
func homed(path, home string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		return filepath.Join(home, rest)
	}
	return path
}

func first(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}

func parsePort(text string) (uint16, error) {
	if text == "" {
		return defaultPort, nil
	}
	number, err := strconv.ParseUint(text, 10, 16)
	if err != nil || number == 0 {
		return 0, fmt.Errorf("port %s is none of 1 to 65535", text)
	}
	return uint16(number), nil
}

// CheckBastion says what is wrong with the name of a bastion.
func CheckBastion(text string) error {
	_, err := parseJumps(text)
	return err
}

// parseJumps reads what ssh -J takes: targets separated by commas, or "none".
func parseJumps(text string) ([]Target, error) {
	if text == "" || text == "none" {
		return nil, nil
	}
	var jumps []Target
	for part := range strings.SplitSeq(text, ",") {
		jump, err := parseTarget(strings.TrimPrefix(strings.TrimSpace(part), Scheme))
		if err != nil {
			return nil, fmt.Errorf("%q: %w", part, err)
		}
		jumps = append(jumps, jump)
	}
	return jumps, nil
}

// configFile is a client's configuration file.
type configFile struct{ parsed *sshconfig.Config }

// readConfig reads a configuration file. An absent one is empty.
func readConfig(path string) (configFile, error) {
	if path == "" {
		return configFile{}, nil
	}
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return configFile{}, nil
	}
	var parsed *sshconfig.Config
	if err == nil {
		parsed, err = sshconfig.DecodeBytes(content)
	}
	if err != nil {
		return configFile{}, fmt.Errorf("read %s: %w; name another file, or none, as config_file of the provider's ssh settings", path, err)
	}
	return configFile{parsed}, nil
}

// section is what a configuration file says of one host.
type section struct {
	file configFile
	name string
	err  error
}

// section checks that the file can be read for that host.
func (f configFile) section(name string) section {
	s := section{file: f, name: name}
	if f.parsed != nil {
		_, s.err = f.parsed.Get(name, "HostName")
	}
	return s
}

// get returns the first value of a keyword, or "".
func (s section) get(keyword string) string {
	values := s.all(keyword)
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

func (s section) all(keyword string) []string {
	if s.file.parsed == nil || s.err != nil {
		return nil
	}
	values, err := s.file.parsed.GetAll(s.name, keyword)
	if err != nil {
		return nil
	}
	var kept []string
	for _, value := range values {
		if value = strings.Trim(value, `"`); value != "" {
			kept = append(kept, value)
		}
	}
	return kept
}
