// Package sshtest runs OpenSSH's server on local hosts, so that tests reach
// machines by SSH without a network: what they dial goes through the hosts'
// namespaces.
package sshtest

import (
	"context"
	"crypto/ed25519"
	"encoding/pem"
	"fmt"
	"io/fs"
	"net"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/local"
)

// Key is a key pair of a client or a host.
type Key struct {
	PEM    string // the private half, in OpenSSH's format
	Public ssh.PublicKey
}

// NewKey makes an Ed25519 key.
func NewKey(t testing.TB) Key {
	t.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return Key{PEM: string(pem.EncodeToMemory(block)), Public: signer.PublicKey()}
}

// Line returns the public half as in an authorized_keys file.
func (k Key) Line() string { return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(k.Public))) }

// Server is an SSH server on a local host. It listens on port 22 there.
type Server struct {
	Host host.Host // the machine itself, as its console
	Key  Key       // of the server
	Name string
}

// NeedServer skips a test where the server cannot run.
func NeedServer(t testing.TB) {
	t.Helper()
	if err := local.Check(); err != nil {
		t.Skip(err)
	}
	for _, program := range []string{"/usr/sbin/sshd", "/usr/bin/sudo"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%v; tools/packages.sh installs it", err)
		}
	}
}

// Start makes a local host with an SSH server that lets root in with the key.
// Both go with the test. More lines for sshd_config may follow.
func Start(t testing.TB, opener *local.Opener, name string, client Key, config ...string) *Server {
	t.Helper()
	NeedServer(t)
	if _, err := opener.Apply(t.Context(), local.Spec{Name: name}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := opener.Remove(context.Background(), name); err != nil {
			t.Error(err)
		}
	})
	return Serve(t, opener, name, client, config...)
}

// Serve is Start on a local host that is there already.
func Serve(t testing.TB, opener *local.Opener, name string, client Key, config ...string) *Server {
	t.Helper()
	h, err := opener.Open(t.Context(), local.URL(name))
	if err != nil {
		t.Fatal(err)
	}
	server := &Server{Host: h, Key: NewKey(t), Name: name}
	server.Write(t, "/etc/ssh/testbed_host_key", 0o600, server.Key.PEM)
	server.Write(t, "/root/.ssh/authorized_keys", 0o600, client.Line()+"\n")
	server.Run(t, "sh", "-c", "mkdir -p /run/sshd && chmod 700 /root /root/.ssh && usermod -p '*' root")
	server.Configure(t, config...)
	return server
}

// Configure starts the server, anew if it runs, with more lines for its
// configuration.
func (s *Server) Configure(t testing.TB, config ...string) {
	t.Helper()
	lines := append(config,
		"HostKey /etc/ssh/testbed_host_key", "ListenAddress 127.0.0.1:22", "UsePAM no", "PasswordAuthentication no",
		"PermitRootLogin prohibit-password", "UseDNS no", "MaxStartups 100")
	if !slices.ContainsFunc(config, func(line string) bool { return strings.HasPrefix(line, "Subsystem ") }) {
		lines = append(lines, "Subsystem sftp internal-sftp")
	}
	s.Write(t, "/etc/ssh/testbed_sshd_config", 0o600, strings.Join(lines, "\n")+"\n")
	service := host.Service{Name: "sshd", Argv: []string{"/usr/sbin/sshd", "-D", "-e", "-f", "/etc/ssh/testbed_sshd_config"}}
	if err := s.Host.StopService(t.Context(), service.Name); err != nil {
		t.Fatal(err)
	}
	if err := s.Host.StartService(t.Context(), service); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		conn, err := s.Host.Dial(t.Context(), "tcp", "127.0.0.1:22")
		if err == nil {
			conn.Close()
			return
		}
		if time.Now().After(deadline) {
			log, _ := s.Host.ServiceLog(t.Context(), service.Name, 20)
			t.Fatalf("the SSH server of %s does not listen: %v\n%s", s.Name, err, log)
		}
	}
}

// AddUser makes a user whom the key lets in, with lines for sudoers, in which
// USER stands for the name.
func (s *Server) AddUser(t testing.TB, name string, client Key, sudoers ...string) {
	t.Helper()
	s.Run(t, "useradd", "-m", "-s", "/bin/bash", "-p", "*", name)
	s.Write(t, "/home/"+name+"/.ssh/authorized_keys", 0o600, client.Line()+"\n")
	s.Run(t, "chown", "-R", name+":", "/home/"+name+"/.ssh")
	s.Run(t, "chmod", "700", "/home/"+name+"/.ssh")
	if len(sudoers) > 0 {
		s.Write(t, "/etc/sudoers.d/"+name, 0o440, strings.ReplaceAll(strings.Join(sudoers, "\n"), "USER", name)+"\n")
	}
}

// Run runs a command on the machine's console and returns its output.
func (s *Server) Run(t testing.TB, argv ...string) string {
	t.Helper()
	output, err := s.Host.Run(t.Context(), host.Command{Argv: argv})
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(output.Stdout))
}

// Write writes a file of the machine.
func (s *Server) Write(t testing.TB, path string, mode uint32, content string) {
	t.Helper()
	if err := s.Host.Write(t.Context(), path, fs.FileMode(mode), strings.NewReader(content)); err != nil {
		t.Fatal(err)
	}
}

// Dialer reaches servers by their names, at whatever port they listen on.
func Dialer(servers ...*Server) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		name, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		for _, server := range servers {
			if server.Name == name {
				return server.Host.Dial(ctx, network, "127.0.0.1:"+port)
			}
		}
		return nil, fmt.Errorf("there is no SSH server %s", name)
	}
}
