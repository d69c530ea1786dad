package ssh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"
)

// errorSize is how much of what a program says on its error output is kept, in
// bytes.
const errorSize = 4 << 10

// sudoPrompt is how sudo asks for the password, so that it is not sent to
// anything else.
const sudoPrompt = "testbed-agent: password for sudo?"

// RootError reports a user who may not become root.
type RootError struct {
	User   string
	Detail string // what sudo says
	Fix    string
}

func (e *RootError) Error() string {
	return fmt.Sprintf("become root as %s: %s; %s", e.User, e.Detail, e.Fix)
}

// rootProcess is a program that runs as root in an SSH session. Its output is
// read by whoever started it.
type rootProcess struct {
	login   *login
	session *ssh.Session
	input   io.WriteCloser
	output  io.Reader
	errput  *watcher
	root    rootUser
}

// rootUser is how root is reached.
type rootUser struct {
	user     string
	direct   bool // the user is root already
	password string
}

// startRoot starts a line of shell as root. The line consists of constants and
// digests only: it is the one thing that a shell of the host reads.
func (l *login) startRoot(root rootUser, line string) (*rootProcess, error) {
	session, err := l.NewSession()
	if err != nil {
		return nil, unreachable(fmt.Errorf("open a session: %w", err))
	}
	p := &rootProcess{login: l, session: session, errput: &watcher{}, root: root}
	session.Stderr = p.errput
	if p.input, err = session.StdinPipe(); err == nil {
		p.output, err = session.StdoutPipe()
	}
	switch {
	case root.direct:
	case root.password == "":
		line = "sudo -n -- " + line
	default:
		p.errput.onPrompt = p.answer
		line = "sudo -S -p '" + sudoPrompt + "' -- " + line
	}
	if err == nil {
		err = session.Start(line)
	}
	if err != nil {
		session.Close()
		return nil, unreachable(fmt.Errorf("start a command: %w", err))
	}
	return p, nil
}

// answer tells sudo the password once, and ends it when it asks again.
func (p *rootProcess) answer(times int) {
	if times > 1 {
		p.session.Close()
		return
	}
	_, _ = io.WriteString(p.input, p.root.password+"\n")
}

// wait waits for the end of the program. When ctx ends, so does the whole SSH
// connection: a session alone ends when the host agrees, which it may never do.
func (p *rootProcess) wait(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { p.login.Close() })()
	err := p.session.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return p.explain(err)
}

// explain says why the program did not do what it should.
func (p *rootProcess) explain(err error) error {
	said, prompts := p.errput.text()
	if prompts > 1 {
		return &RootError{p.root.user, "sudo does not take the password", "correct sudo_password in the provider's ssh settings"}
	}
	if err == nil {
		return nil
	}
	if !p.root.direct {
		if fix := sudoFix(said, p.root.user); fix != "" {
			return &RootError{p.root.user, said, fix}
		}
	}
	var exit *ssh.ExitError
	if errors.As(err, &exit) {
		return fmt.Errorf("exit code %d: %s", exit.ExitStatus(), said)
	}
	if said != "" {
		err = fmt.Errorf("%w: %s", err, said)
	}
	return unreachable(err)
}

// sudoFix says what to do about what sudo says, or nothing when it does not
// come from sudo. Sudo tells the cases apart by its words alone.
func sudoFix(said, user string) string {
	allow := fmt.Sprintf("allow it on the host, as root: echo '%s ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/testbed", user)
	switch {
	case strings.Contains(said, "password is required"):
		return "set sudo_password in the provider's ssh settings, or " + allow
	case strings.Contains(said, "not in the sudoers file"), strings.Contains(said, "may not run sudo"), strings.Contains(said, "not allowed to"):
		return allow
	case strings.Contains(said, "sudo") && strings.Contains(said, "not found"):
		return "install sudo on the host, or log in as root"
	case strings.HasPrefix(said, "sudo:"):
		return "see to sudo on the host, or log in as root"
	}
	return ""
}

// watcher keeps the end of an error output and looks for the questions of
// sudo.
type watcher struct {
	onPrompt func(times int)

	mu      sync.Mutex
	said    []byte
	prompts int
}

func (w *watcher) Write(p []byte) (int, error) {
	w.mu.Lock()
	w.said = append(w.said, p...)
	found := bytes.Count(w.said, []byte(sudoPrompt))
	w.said = bytes.ReplaceAll(w.said, []byte(sudoPrompt), nil)
	if extra := len(w.said) - errorSize; extra > 0 {
		w.said = w.said[extra:]
	}
	first := w.prompts
	w.prompts += found
	w.mu.Unlock()
	for i := range found {
		if w.onPrompt != nil {
			w.onPrompt(first + i + 1)
		}
	}
	return len(p), nil
}

func (w *watcher) text() (said string, prompts int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.TrimSpace(string(w.said)), w.prompts
}
