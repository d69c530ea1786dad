package ssh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"

	"github.com/pkg/sftp"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/agent"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/agent/ledger"
)

// agents is the folder of the agents on a host, each in a folder named by its
// digest.
const agents = ledger.Dir

// probe asks a host what the login shell runs as and which agents it has. It
// changes nothing.
const probe = `sh -c 'echo ` + probeMark + `; uname -s; uname -m; id -u; wc -c ` + agents + `/*/testbed-agent 2>/dev/null; :'`

// probeMark begins the probe's output, before which a login script may print
// something.
const probeMark = "testbed-agent: probe"

// probed is what a host answers to the probe.
type probed struct {
	machine   string // as uname names it
	root      bool
	installed map[string]int64 // size of the agents by path, in bytes
}

func (l *login) probe(ctx context.Context) (probed, error) {
	session, err := l.NewSession()
	if err != nil {
		return probed{}, unreachable(fmt.Errorf("open a session: %w", err))
	}
	defer session.Close()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	var said bytes.Buffer
	session.Stderr = &said
	output, err := session.Output(probe)
	if ctx.Err() != nil {
		return probed{}, context.Cause(ctx)
	}
	if err != nil {
		return probed{}, unreachable(fmt.Errorf("find what the host is: %w: %s", err, strings.TrimSpace(said.String())))
	}
	return parseProbe(string(output))
}

// parseProbe reads the probe's output.
func parseProbe(output string) (probed, error) {
	_, after, ok := strings.Cut(output, probeMark+"\n")
	lines := strings.Split(after, "\n")
	if !ok || len(lines) < 3 || lines[0] != "Linux" {
		return probed{}, fmt.Errorf("find what the host is: it is no Linux machine, or its login shell runs no commands; it says %.200q", output)
	}
	found := probed{machine: lines[1], root: lines[2] == "0", installed: map[string]int64{}}
	for _, line := range lines[3:] {
		size, file, ok := strings.Cut(strings.TrimSpace(line), " ")
		if number, err := strconv.ParseInt(size, 10, 64); ok && err == nil {
			found.installed[file] = number
		}
	}
	return found, nil
}

// arch returns the architecture of the agent for a machine as uname names it.
// The kernel's counts: the agent needs no libraries.
func arch(machine string) (string, error) {
	switch machine {
	case "x86_64", "amd64":
		return "amd64", nil
	case "aarch64", "arm64":
		return "arm64", nil
	case "armv7l", "armv8l":
		return "arm", nil
	}
	return "", fmt.Errorf("find an agent for the host: its kernel is for %s, and there are agents for x86_64, aarch64 and armv7l", machine)
}

// install returns the path of the agent on the host, after putting it there
// if need be, and whether it did. One of another size is not whole, and is
// replaced.
func (o *Opener) install(ctx context.Context, l *login, found probed, root rootUser) (file string, fresh bool, err error) {
	name, err := arch(found.machine)
	if err != nil {
		return "", false, err
	}
	packed, err := o.agent(name)
	if err != nil {
		return "", false, err
	}
	file = path.Join(agents, packed.Digest, "testbed-agent")
	if found.installed[file] == packed.Size {
		return file, false, nil
	}
	if err := l.upload(ctx, packed, root, path.Dir(file)); err != nil {
		return "", false, fmt.Errorf("put the agent on the host: %w", err)
	}
	return file, true, nil
}

// upload sends the packed agent by SFTP to a place of the user's, and has it
// checked, unpacked and moved to its folder by root.
func (l *login) upload(ctx context.Context, packed agent.Packed, root rootUser, folder string) error {
	client, err := sftp.NewClient(l.Client, sftp.UseConcurrentWrites(true))
	if err != nil {
		return unreachable(fmt.Errorf("start SFTP, which sshd_config must have as \"Subsystem sftp\": %w", err))
	}
	defer client.Close()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	staged, err := stage(client, packed)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	defer func() { _ = client.Remove(staged) }()
	script := unpackScript(staged, folder, packed)
	process, err := l.startRoot(root, script)
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, process.output)
	if err := process.wait(ctx); err != nil {
		return advise(err)
	}
	return nil
}

// advise says what to do about what the unpacking says. Programs of the host
// tell by their words alone.
func advise(err error) error {
	switch text := err.Error(); {
	case strings.Contains(text, "No space left"):
		return fmt.Errorf("%w; free some space there (df -h %s)", err, path.Dir(agents))
	case strings.Contains(text, "Read-only"):
		return fmt.Errorf("%w; make it writable (mount -o remount,rw), and see dmesg for why it is not", err)
	}
	return err
}

// stage writes the packed agent to the user's home folder or, where that cannot
// be written to, to /tmp, and returns its path.
func stage(client *sftp.Client, packed agent.Packed) (string, error) {
	var errs []error
	for _, folder := range []string{"", "/tmp/"} {
		staged := folder + ".testbed-agent-" + packed.Digest + ".gz"
		err := send(client, staged, packed.Content)
		if err == nil {
			return staged, nil
		}
		if errors.Is(err, sftp.ErrSSHFxConnectionLost) || errors.Is(err, io.EOF) {
			return "", unreachable(fmt.Errorf("the connection broke during the upload; the same command begins it anew: %w", err))
		}
		errs = append(errs, fmt.Errorf("write %s: %w", first(folder, "~"), err))
	}
	return "", fmt.Errorf("%w; see to free space (df -h ~ /tmp) and to write permission there", errors.Join(errs...))
}

func send(client *sftp.Client, name string, content []byte) error {
	// A link that somebody else put there is not followed.
	_ = client.Remove(name)
	file, err := client.Create(name)
	if err != nil {
		return err
	}
	_, err = file.ReadFrom(bytes.NewReader(content))
	if err := errors.Join(err, file.Close()); err != nil {
		_ = client.Remove(name)
		return err
	}
	return nil
}

// unpackScript is what root runs for installing a staged agent: it gets its
// name only when it is whole and safely on the disk.
func unpackScript(staged, folder string, packed agent.Packed) string {
	fresh := folder + "/new-$$"
	steps := []string{
		"set -e",
		"umask 022",
		`if ! [ "$(sha256sum < ` + staged + `)" = "` + packed.Sum + `  -" ]; then echo "the agent was damaged on its way; the same command sends it again" >&2; exit 65; fi`,
		"mkdir -p " + folder,
		`trap "rm -f ` + fresh + `" EXIT`,
		"gzip -dc < " + staged + " > " + fresh,
		"chmod 0755 " + fresh,
		"sync " + fresh + " 2>/dev/null || sync",
		"mv " + fresh + " " + folder + "/testbed-agent",
	}
	return "sh -c '" + strings.Join(steps, "; ") + "'"
}
