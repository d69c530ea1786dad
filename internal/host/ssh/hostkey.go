package ssh

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// HostKeyError reports a host that does not show the key it should.
type HostKeyError struct {
	Address string   // host:port
	Shown   string   // type and fingerprint of the key that it shows
	Wanted  []string // the same of the keys that would be right, and where they are from; none for an unknown host
	Key     string   // the shown key as in a known_hosts file
}

func (e *HostKeyError) Error() string {
	if len(e.Wanted) == 0 {
		host, port, _ := net.SplitHostPort(e.Address)
		return fmt.Sprintf("the host key of %s is not known: it shows %s, and known is none. "+
			"Compare it with what \"ssh-keygen -lf\" prints for /etc/ssh/ssh_host_*_key.pub on the host itself; "+
			"if they are equal, set host_key = %q, or run: ssh-keyscan -p %s %s >> ~/.ssh/known_hosts", e.Address, e.Shown, e.Key, port, host)
	}
	return fmt.Sprintf("the host key of %s has changed: it shows %s, but it should show %s. "+
		"Somebody may be between you and the host. If the host was installed anew, remove the old key (ssh-keygen -R %q, or host_key) and check the new one",
		e.Address, e.Shown, strings.Join(e.Wanted, " or "), knownhosts.Normalize(e.Address))
}

// checker checks the key that a host shows.
type checker struct {
	callback   ssh.HostKeyCallback
	algorithms []string // of which the host is to show a key; nil: any
}

func (s settings) checker() (checker, error) {
	switch {
	case s.pinned != "":
		return pinned(s.pinned)
	case s.skipHostKeys:
		return checker{callback: ssh.InsecureIgnoreHostKey()}, nil //nolint:gosec // as asked for
	}
	return s.known()
}

func shown(key ssh.PublicKey) string { return key.Type() + " " + ssh.FingerprintSHA256(key) }

func line(key ssh.PublicKey) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

// CheckHostKey says what is wrong with a pinned key.
func CheckHostKey(text string) error {
	_, err := pinned(text)
	return err
}

// pinned takes a key as in a known_hosts or authorized_keys file, or a SHA256
// fingerprint.
func pinned(text string) (checker, error) {
	if strings.HasPrefix(text, "SHA256:") {
		return checker{callback: func(address string, _ net.Addr, key ssh.PublicKey) error {
			if ssh.FingerprintSHA256(key) == text {
				return nil
			}
			return &HostKeyError{Address: address, Shown: shown(key), Wanted: []string{text + " (host_key)"}, Key: line(key)}
		}, algorithms: []string{ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}}, nil
	}
	want, _, _, _, err := ssh.ParseAuthorizedKey([]byte(text))
	if err != nil {
		return checker{}, fmt.Errorf("host_key %q: it is neither a public key (\"ssh-ed25519 AAAA...\") nor a fingerprint (\"SHA256:...\")", text)
	}
	return checker{callback: func(address string, _ net.Addr, key ssh.PublicKey) error {
		if bytes.Equal(key.Marshal(), want.Marshal()) {
			return nil
		}
		return &HostKeyError{Address: address, Shown: shown(key), Wanted: []string{shown(want) + " (host_key)"}, Key: line(key)}
	}, algorithms: signatures(want.Type())}, nil
}

// signatures are the algorithms by which a host proves that it has a key of
// that type.
func signatures(keyType string) []string {
	if keyType == ssh.KeyAlgoRSA {
		return []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
	}
	return []string{keyType}
}

// known checks against known_hosts files.
func (s settings) known() (checker, error) {
	var files []string
	for _, file := range s.knownHosts {
		if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
			files = append(files, file)
		}
	}
	check, err := knownhosts.New(files...)
	if err != nil {
		return checker{}, fmt.Errorf("read known hosts: %w", err)
	}
	address := net.JoinHostPort(s.name, strconv.Itoa(int(s.target.Port)))
	return checker{callback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
		err := check(address, nowhere(), key)
		var wrong *knownhosts.KeyError
		if !errors.As(err, &wrong) {
			return err
		}
		refused := &HostKeyError{Address: address, Shown: shown(key), Key: line(key)}
		for _, want := range wrong.Want {
			refused.Wanted = append(refused.Wanted, fmt.Sprintf("%s (%s:%d)", shown(want.Key), want.Filename, want.Line))
		}
		return refused
	}, algorithms: knownAlgorithms(check, address)}, nil
}

// nowhere stands for the other end of the connection, which may be a bastion's
// tunnel: a host is looked up by its name.
func nowhere() net.Addr { return &net.TCPAddr{IP: net.IPv4zero} }

// knownAlgorithms are those of the keys that are known of a host: it may have
// others, and would show one of them if it were not asked for these.
func knownAlgorithms(check ssh.HostKeyCallback, address string) []string {
	err := check(address, nowhere(), noKey{})
	var wrong *knownhosts.KeyError
	if !errors.As(err, &wrong) {
		return nil
	}
	var found []string
	for _, want := range wrong.Want {
		for _, algorithm := range signatures(want.Key.Type()) {
			if !slices.Contains(found, algorithm) {
				found = append(found, algorithm)
			}
		}
	}
	return found
}

// noKey is the key of no host.
type noKey struct{}

func (noKey) Type() string                        { return "none" }
func (noKey) Marshal() []byte                     { return []byte("none") }
func (noKey) Verify([]byte, *ssh.Signature) error { return errors.New("this is no key") }
