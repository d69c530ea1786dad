package ssh_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	xssh "golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/local"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/ssh"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/ssh/sshtest"
)

// file writes a file for a test and returns its path.
func file(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// locked returns a key with a passphrase.
func locked(t *testing.T, key sshtest.Key, passphrase string) string {
	t.Helper()
	private, err := xssh.ParseRawPrivateKey([]byte(key.PEM))
	if err != nil {
		t.Fatal(err)
	}
	block, err := xssh.MarshalPrivateKeyWithPassphrase(private, "", []byte(passphrase))
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(block))
}

// sshAgent serves keys like ssh-agent, and returns its socket.
func sshAgent(t *testing.T, keys ...sshtest.Key) string {
	t.Helper()
	ring := agent.NewKeyring()
	for _, key := range keys {
		private, err := xssh.ParseRawPrivateKey([]byte(key.PEM))
		if err != nil {
			t.Fatal(err)
		}
		if err := ring.Add(agent.AddedKey{PrivateKey: private}); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := os.MkdirTemp("", "agent") //nolint:usetesting // its path is short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	listener, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_ = agent.ServeAgent(ring, conn) // ends with the connection
			}()
		}
	}()
	return listener.Addr().String()
}

// whoami logs in and returns the user who the host says it works for, which is
// root, or the error.
func whoami(t *testing.T, config ssh.Config, url string) error {
	t.Helper()
	output, err := open(t, config, url).Run(t.Context(), command("id", "-un"))
	if err == nil && string(output.Stdout) != "root\n" {
		t.Errorf("commands run as %q", output.Stdout)
	}
	return err
}

// check compares an error with words that it should have, in this order; no
// words stand for no error.
func check(t *testing.T, err error, words ...string) {
	t.Helper()
	if len(words) == 0 {
		if err != nil {
			t.Error(err)
		}
		return
	}
	if err == nil {
		t.Errorf("there is no error about %q", words)
		return
	}
	rest := err.Error()
	for _, word := range words {
		_, after, ok := strings.Cut(rest, word)
		if !ok {
			t.Errorf("the error has no %q: %v", word, err)
			return
		}
		rest = after
	}
	if !errors.Is(err, host.ErrUnreachable) || errors.Is(err, host.ErrNotExist) {
		t.Errorf("the error does not say that the host could not be asked: %v", err)
	}
}

// TestLogin logs in with keys from everywhere.
func TestLogin(t *testing.T) {
	key, other := sshtest.NewKey(t), sshtest.NewKey(t)
	server := sshtest.Start(t, local.NewOpener(t.TempDir()), "edge", key)
	server.AddUser(t, "pi", key, "USER ALL=(ALL) NOPASSWD: ALL")
	// What a login script prints is not of the protocol.
	server.Write(t, "/home/pi/.bashrc", 0o644, "echo Welcome to\necho Linux\n")
	fingerprint := xssh.FingerprintSHA256(other.Public)
	secret := locked(t, key, "open sesame")
	public := file(t, "id.pub", key.Line())
	clientConfig := file(t, "config", fmt.Sprintf(`
Host board
  HostName edge
  User pi
  IdentityFile %s
Host *
  IdentitiesOnly yes
  Port 22
`, file(t, "id", key.PEM)))
	matching := file(t, "config", "Match host edge\n  User pi\n")
	proxied := file(t, "config", "Host edge\n  ProxyCommand nc %h %p\n")

	for _, test := range []struct {
		name   string
		config ssh.Config
		url    string
		want   []string
	}{
		{"private key", ssh.Config{PrivateKey: key.PEM}, "ssh://root@edge:22", nil},
		{"user with sudo, login script that prints", ssh.Config{PrivateKey: key.PEM}, "ssh://pi@edge", nil},
		{"user of the configuration", ssh.Config{PrivateKey: key.PEM, User: "pi"}, "ssh://edge", nil},
		{"passphrase", ssh.Config{PrivateKey: secret, Passphrase: "open sesame"}, "ssh://root@edge", nil},
		{"no passphrase", ssh.Config{PrivateKey: secret}, "ssh://root@edge", []string{"private_key", "it has a passphrase", "set passphrase"}},
		{"identity file", ssh.Config{IdentityFiles: []string{file(t, "id", key.PEM)}}, "ssh://root@edge", nil},
		{"identity file with passphrase", ssh.Config{IdentityFiles: []string{file(t, "id", secret)}, Passphrase: "open sesame"}, "ssh://root@edge", nil},
		{"locked identity file", ssh.Config{IdentityFiles: []string{file(t, "id", secret)}}, "ssh://root@edge", []string{"identity file", "it has a passphrase", "ssh-add"}},
		{"locked identity file that the agent has", ssh.Config{IdentityFiles: []string{file(t, "id", secret)}, AgentSocket: sshAgent(t, other, key)}, "ssh://root@edge", nil},
		{"absent identity file", ssh.Config{IdentityFiles: []string{"/nowhere/id"}}, "ssh://root@edge", []string{"/nowhere/id", "no such file"}},
		{"agent", ssh.Config{AgentSocket: sshAgent(t, other, key)}, "ssh://root@edge", nil},
		{"agent, named by the public half", ssh.Config{IdentityFiles: []string{public}, AgentSocket: sshAgent(t, other, key)}, "ssh://root@edge", nil},
		{"agent that is not there", ssh.Config{AgentSocket: "/nowhere/agent"}, "ssh://root@edge", []string{"log in as root", "no key", "agent at /nowhere/agent does not answer"}},
		{"configuration file", ssh.Config{ConfigFile: clientConfig}, "ssh://board", nil},
		{"configuration file with Match", ssh.Config{ConfigFile: matching, PrivateKey: key.PEM}, "ssh://edge", []string{"Match", "config_file"}},
		{"configuration file with ProxyCommand", ssh.Config{ConfigFile: proxied, PrivateKey: key.PEM}, "ssh://edge", []string{"ProxyCommand", "ProxyJump"}},
		{"wrong key", ssh.Config{PrivateKey: other.PEM}, "ssh://root@edge", []string{"log in as root", "accepts none", fingerprint, "authorized_keys"}},
		{"wrong user", ssh.Config{PrivateKey: key.PEM}, "ssh://nobody@edge", []string{"log in as nobody", "another user"}},
		{"wrong port", ssh.Config{PrivateKey: key.PEM}, "ssh://root@edge:23", []string{"reach edge:23", "refused"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			// The keys and settings of who runs the test are of no matter.
			t.Setenv("HOME", t.TempDir())
			test.config.SkipHostKeys = true
			test.config.Dial = sshtest.Dialer(server)
			check(t, whoami(t, test.config, test.url), test.want...)
		})
	}
}

// TestHostKeys connects to a host that shows one key or another.
func TestHostKeys(t *testing.T) {
	key := sshtest.NewKey(t)
	server := sshtest.Start(t, local.NewOpener(t.TempDir()), "edge", key)
	stranger := sshtest.NewKey(t)
	second := ecdsaKey(t)
	server.Write(t, "/etc/ssh/second_host_key", 0o600, second.PEM)
	server.Configure(t, "HostKey /etc/ssh/second_host_key")

	lines := func(keys ...xssh.PublicKey) []string {
		var text string
		for _, key := range keys {
			text += knownhosts.Line([]string{"edge"}, key) + "\n"
		}
		return []string{file(t, "known_hosts", text)}
	}
	hashed := file(t, "known_hosts", knownhosts.Line([]string{knownhosts.HashHostname("edge")}, server.Key.Public)+"\n")
	records := func(hostKey string) ssh.Records {
		records := ssh.Records(t.TempDir())
		target := ssh.Target{User: "root", Address: "edge"}
		if err := ssh.NewOpener(ssh.Config{Records: records}).Remember(target, ssh.Record{HostKey: hostKey}); err != nil {
			t.Fatal(err)
		}
		return records
	}
	shown, changed := xssh.FingerprintSHA256(server.Key.Public), xssh.FingerprintSHA256(stranger.Public)
	for _, test := range []struct {
		name   string
		config ssh.Config
		want   []string
	}{
		{"known", ssh.Config{KnownHosts: lines(server.Key.Public)}, nil},
		{"known by its other key", ssh.Config{KnownHosts: lines(second.Public)}, nil},
		{"known by a hashed name", ssh.Config{KnownHosts: []string{hashed}}, nil},
		{"unknown", ssh.Config{KnownHosts: []string{"/nowhere/known_hosts"}}, []string{"edge:22 is not known", "SHA256:", "known is none", "ssh-keygen -lf", "host_key", "ssh-keyscan"}},
		{"changed", ssh.Config{KnownHosts: lines(stranger.Public)}, []string{"edge:22 has changed", shown, "should show", changed, "known_hosts:1", "ssh-keygen -R"}},
		{"pinned key", ssh.Config{Records: records(server.Key.Line())}, nil},
		{"pinned other key", ssh.Config{Records: records(second.Line())}, nil},
		{"pinned fingerprint", ssh.Config{Records: records(shown)}, nil},
		{"pinned and changed", ssh.Config{Records: records(stranger.Line())}, []string{"has changed", shown, "should show", changed, "host_key"}},
		{"pinned fingerprint and changed", ssh.Config{Records: records(changed)}, []string{"has changed", shown, "should show", changed}},
		{"not checked", ssh.Config{SkipHostKeys: true}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.config.PrivateKey = key.PEM
			test.config.Dial = sshtest.Dialer(server)
			err := whoami(t, test.config, "ssh://root@edge")
			check(t, err, test.want...)
			if refused := new(ssh.HostKeyError); test.want != nil && !errors.As(err, &refused) {
				t.Errorf("the error is %T", err)
			}
		})
	}
}

func ecdsaKey(t *testing.T) sshtest.Key {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := xssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	public, err := xssh.NewPublicKey(private.Public())
	if err != nil {
		t.Fatal(err)
	}
	return sshtest.Key{PEM: string(pem.EncodeToMemory(block)), Public: public}
}

// TestBastion reaches a server by an address that means something at the
// bastion only.
func TestBastion(t *testing.T) {
	key := sshtest.NewKey(t)
	gate := sshtest.Start(t, local.NewOpener(t.TempDir()), "gate", key)
	known := file(t, "known_hosts", knownhosts.Line([]string{"gate"}, gate.Key.Public)+"\n"+knownhosts.Line([]string{"127.0.0.1"}, gate.Key.Public)+"\n")
	gateOnly := file(t, "known_hosts", knownhosts.Line([]string{"gate"}, gate.Key.Public)+"\n")
	clientConfig := file(t, "config", "Host inner\n  HostName 127.0.0.1\n  ProxyJump root@gate\n")
	for _, test := range []struct {
		name   string
		config ssh.Config
		url    string
		want   []string
	}{
		{"one", ssh.Config{KnownHosts: []string{known}, Bastion: "root@gate"}, "ssh://root@127.0.0.1", nil},
		{"two", ssh.Config{KnownHosts: []string{known}, Bastion: "root@gate:22,root@127.0.0.1"}, "ssh://root@127.0.0.1", nil},
		{"configuration file", ssh.Config{KnownHosts: []string{known}, ConfigFile: clientConfig}, "ssh://root@inner", nil},
		{"none", ssh.Config{KnownHosts: []string{known}}, "ssh://root@127.0.0.1", []string{"reach 127.0.0.1:22", "no SSH server 127.0.0.1"}},
		{"bastion that does not answer", ssh.Config{KnownHosts: []string{known}, Bastion: "root@gate:23"}, "ssh://root@127.0.0.1", []string{"log in to the bastion root@gate:23", "refused"}},
		{"bastion that the host is not behind", ssh.Config{KnownHosts: []string{known}, Bastion: "root@gate"}, "ssh://root@127.0.0.1:23", []string{"reach 127.0.0.1:23"}},
		{"unknown host behind it", ssh.Config{KnownHosts: []string{gateOnly}, Bastion: "root@gate"}, "ssh://root@127.0.0.1", []string{"127.0.0.1:22 is not known"}},
		{"wrong user at it", ssh.Config{KnownHosts: []string{known}, Bastion: "nobody@gate"}, "ssh://root@127.0.0.1", []string{"bastion nobody@gate", "log in as nobody"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.config.PrivateKey = key.PEM
			test.config.Dial = sshtest.Dialer(gate)
			check(t, whoami(t, test.config, test.url), test.want...)
		})
	}
}

// TestSudo becomes root in all ways and fails in all ways.
func TestSudo(t *testing.T) {
	key := sshtest.NewKey(t)
	server := sshtest.Start(t, local.NewOpener(t.TempDir()), "edge", key)
	server.AddUser(t, "free", key, "USER ALL=(ALL) NOPASSWD: ALL")
	server.AddUser(t, "asked", key, "USER ALL=(ALL) ALL")
	server.AddUser(t, "typist", key, "Defaults:USER use_pty", "USER ALL=(ALL) NOPASSWD: ALL")
	server.AddUser(t, "none", key)
	server.Run(t, "sh", "-c", "echo 'asked:right word' | chpasswd; echo 'none:right word' | chpasswd")
	for _, test := range []struct {
		name, user, password string
		want                 []string
	}{
		{"without password", "free", "", nil},
		{"needless password", "free", "right word", nil},
		{"with a terminal of its own", "typist", "", nil},
		{"password", "asked", "right word", nil},
		{"wrong password", "asked", "wrong word", []string{"become root as asked", "does not take the password", "sudo_password"}},
		{"no password", "asked", "", []string{"become root as asked", "password is required", "sudo_password", "NOPASSWD"}},
		{"not allowed", "none", "right word", []string{"become root as none", "sudoers", "/etc/sudoers.d/testbed"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := ssh.Config{PrivateKey: key.PEM, SkipHostKeys: true, SudoPassword: test.password, Dial: sshtest.Dialer(server)}
			check(t, whoami(t, config, "ssh://"+test.user+"@edge"), test.want...)
		})
	}
	t.Run("no sudo", func(t *testing.T) {
		server.Run(t, "mv", "/usr/bin/sudo", "/usr/bin/no-sudo")
		config := ssh.Config{PrivateKey: key.PEM, SkipHostKeys: true, Dial: sshtest.Dialer(server)}
		check(t, whoami(t, config, "ssh://free@edge"), "become root as free", "not found", "install sudo")
	})
}

func TestParse(t *testing.T) {
	for text, want := range map[string]ssh.Target{
		"ssh://edge":                 {Address: "edge"},
		"ssh://pi@198.18.0.1":        {User: "pi", Address: "198.18.0.1"},
		"ssh://pi@[fd00::1]:2222":    {User: "pi", Address: "fd00::1", Port: 2222},
		"ssh://a%40b@edge.lab:65535": {User: "a@b", Address: "edge.lab", Port: 65535},
	} {
		got, err := ssh.Parse(text)
		if err != nil || got != want {
			t.Errorf("%s: got %+v, %v", text, got, err)
		}
		if got.URL() != text {
			t.Errorf("%s comes back as %s", text, got.URL())
		}
	}
	for text, word := range map[string]string{
		"local://edge":         "only ssh://",
		"ssh://":               "no address",
		"ssh://pi:secret@edge": "password",
		"ssh://edge:0":         "port 0",
		"ssh://edge:70000":     "port 70000",
		"ssh://edge/root":      "nothing may follow",
		"ssh://-oProxy@edge":   "hyphen",
		"ssh://pi@edge?x=y":    "nothing may follow",
		"ssh://pi@ed ge":       "invalid character",
		"ssh://pi@[fd00::1:22": "missing ']'",
	} {
		if _, err := ssh.Parse(text); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v does not say %q", text, err, word)
		}
	}
}
