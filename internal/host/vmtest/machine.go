package vmtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

const (
	// handshakeWithin is how long sshd of a machine that boots may be silent.
	handshakeWithin = 20 * time.Second

	pollEvery = 200 * time.Millisecond
)

// Shell runs a script by the machine's sh as root and returns what it printed.
// It uses a connection of its own, which shares nothing with what is tested.
func (m *Machine) Shell(ctx context.Context, script string) (string, error) {
	client, err := m.connect(ctx)
	if err != nil {
		return "", fmt.Errorf("reach %s: %w", m.Name, err)
	}
	defer client.Close()
	defer context.AfterFunc(ctx, func() { client.Close() })()
	session, err := client.NewSession()
	if err != nil {
		return "", fmt.Errorf("reach %s: %w", m.Name, err)
	}
	defer session.Close()
	session.Stdin = strings.NewReader(script)
	output, err := session.CombinedOutput("sh -eu")
	if err != nil {
		return string(output), fmt.Errorf("run a script on %s: %w: %s", m.Name, errors.Join(context.Cause(ctx), err), output)
	}
	return string(output), nil
}

func (m *Machine) connect(ctx context.Context) (*ssh.Client, error) {
	keyText, err := os.ReadFile(m.KeyFile())
	if err != nil {
		return nil, err
	}
	key, err := ssh.ParsePrivateKey(keyText)
	if err != nil {
		return nil, err
	}
	hostKeyText, err := m.HostKey()
	if err != nil {
		return nil, err
	}
	hostKey, _, _, _, err := ssh.ParseAuthorizedKey([]byte(hostKeyText))
	if err != nil {
		return nil, err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", m.SSH.String())
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	_ = conn.SetDeadline(time.Now().Add(handshakeWithin))
	secured, channels, requests, err := ssh.NewClientConn(conn, m.SSH.String(), &ssh.ClientConfig{
		User: "root", Auth: []ssh.AuthMethod{ssh.PublicKeys(key)},
		HostKeyCallback: ssh.FixedHostKey(hostKey), HostKeyAlgorithms: []string{hostKey.Type()},
	})
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	_ = conn.SetDeadline(time.Time{})
	return ssh.NewClient(secured, channels, requests), nil
}

// AwaitBoot waits until the machine has started all its units, and fails when
// one of them failed.
func (m *Machine) AwaitBoot(ctx context.Context) error { return m.awaitOtherBoot(ctx, "") }

// awaitOtherBoot waits until the machine has started under another boot id.
func (m *Machine) awaitOtherBoot(ctx context.Context, before string) error {
	ctx, cancel := context.WithTimeout(ctx, bootWithin)
	defer cancel()
	for {
		output, err := m.Shell(ctx, "cat /proc/sys/kernel/random/boot_id; systemctl is-system-running --wait || systemctl --failed")
		id, state, _ := strings.Cut(output, "\n")
		switch {
		case err == nil && id != before && strings.TrimSpace(state) == "running":
			return nil
		case err == nil && id != before:
			return fmt.Errorf("boot %s: %s", m.Name, strings.TrimSpace(state))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s to boot: %w; its console is in %s", m.Name, errors.Join(ctx.Err(), err), m.ConsoleFile())
		case <-time.After(pollEvery):
		}
	}
}

// Reboot boots the machine anew, in order, and returns when it has started.
func (m *Machine) Reboot(ctx context.Context) error {
	before, err := m.Shell(ctx, "cat /proc/sys/kernel/random/boot_id; systemctl --no-block reboot")
	if err != nil {
		return err
	}
	return m.awaitOtherBoot(ctx, strings.TrimSpace(before))
}

// Freeze stops the machine in whatever it does: it answers nothing more, and
// connections to it hang, as when its network is gone.
func (m *Machine) Freeze(ctx context.Context) error {
	_, err := m.command(ctx, "stop", nil)
	return err
}

// Thaw lets a frozen machine go on.
func (m *Machine) Thaw(ctx context.Context) error {
	_, err := m.command(ctx, "cont", nil)
	return err
}

// PowerOff takes the power from the machine: open connections hang, and new
// ones are refused. What it had not written to its disk is lost.
func (m *Machine) PowerOff(ctx context.Context) error {
	if err := m.Freeze(ctx); err != nil {
		return err
	}
	answer := m.human(ctx, "hostfwd_remove control "+removal(m.forwarding()))
	if answer != nil && !strings.Contains(answer.Error(), "removed") {
		return answer
	}
	return nil
}

// PowerOn boots a machine that PowerOff has taken the power from, and returns
// when it has started.
func (m *Machine) PowerOn(ctx context.Context) error {
	if _, err := m.command(ctx, "system_reset", nil); err != nil {
		return err
	}
	if err := m.human(ctx, "hostfwd_add control "+m.forwarding()); err != nil {
		return err
	}
	if err := m.Thaw(ctx); err != nil {
		return err
	}
	return m.AwaitBoot(ctx)
}

// removal is what names a forwarding for its removal: its near end.
func removal(forwarding string) string {
	near, _, _ := strings.Cut(forwarding, "-")
	return near
}

// restore makes the machine what it was after its first boot, with the time of
// now.
func (m *Machine) restore(ctx context.Context) error {
	// A test may have left it without power.
	_ = m.human(ctx, "hostfwd_remove control "+removal(m.forwarding()))
	if err := m.human(ctx, "hostfwd_add control "+m.forwarding()); err != nil {
		return err
	}
	if _, err := m.command(ctx, "stop", nil); err != nil {
		return err
	}
	if err := m.human(ctx, "loadvm "+snapshot); err != nil {
		return err
	}
	if err := m.Thaw(ctx); err != nil {
		return err
	}
	if err := m.AwaitBoot(ctx); err != nil {
		return err
	}
	return m.SetClock(ctx, time.Now())
}

// SetClock sets the machine's clock.
func (m *Machine) SetClock(ctx context.Context, now time.Time) error {
	_, err := m.Shell(ctx, fmt.Sprintf("date --set @%d.%09d", now.Unix(), now.Nanosecond()))
	return err
}

// Upload copies a file of this machine to the machine.
func (m *Machine) Upload(ctx context.Context, from, to string, mode os.FileMode) error {
	file, err := os.Open(from)
	if err != nil {
		return err
	}
	defer file.Close()
	client, err := m.connect(ctx)
	if err != nil {
		return fmt.Errorf("reach %s: %w", m.Name, err)
	}
	defer client.Close()
	defer context.AfterFunc(ctx, func() { client.Close() })()
	session, err := client.NewSession()
	if err != nil {
		return fmt.Errorf("reach %s: %w", m.Name, err)
	}
	defer session.Close()
	session.Stdin = file
	output, err := session.CombinedOutput(fmt.Sprintf("install -D -m %o /dev/stdin '%s'", mode, to))
	if err != nil {
		return fmt.Errorf("copy %s to %s: %w: %s", from, m.Name, errors.Join(context.Cause(ctx), err), output)
	}
	return nil
}
