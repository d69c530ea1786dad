package supervisor

import (
	"context"
	"errors"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/agent/ledger"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/control"
)

// Serve is the "serve" command: it does what a provider asks for on a machine
// with an init of its own, over its standard input and output, which are an
// SSH session. When the session ends, in whatever way, all commands that it
// runs for the provider end too.
func Serve(ctx context.Context, args []string) error {
	if len(args) > 0 {
		return errors.New("serve is started by the provider, over SSH; it takes no arguments")
	}
	// A write to a session that has ended would end this program before it
	// has ended its commands.
	signal.Ignore(syscall.SIGPIPE, syscall.SIGHUP)
	prepare()
	session, begin, err := control.Serve(stdio{})
	if err != nil {
		return err
	}
	children := newChildren(environment)
	defer children.end()
	lock := &lock{path: lockPath, owner: begin.Owner}
	belongings := belongings{ledger.Ledger(ledger.Dir), begin.Owner.Name}
	server := http.Server{Handler: lock.guard(belongings.note(newServer(children, findKeeper(ctx, children))))}
	defer context.AfterFunc(ctx, func() { session.Close() })()
	_ = server.Serve(session) // it ends with the session, which is no error
	if !lock.held() {
		return nil // it only looked
	}
	return errors.Join(belongings.leave(), lock.drop())
}

// prepare sets what commands inherit and this program needs.
func prepare() {
	unix.Umask(0o022)
	limit := unix.Rlimit{}
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err == nil {
		limit.Cur = limit.Max
		_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
	}
}

// stdio is this program's input and output as one connection.
type stdio struct{}

func (stdio) Read(p []byte) (int, error)  { return os.Stdin.Read(p) }
func (stdio) Write(p []byte) (int, error) { return os.Stdout.Write(p) }
func (stdio) Close() error                { return errors.Join(os.Stdin.Close(), os.Stdout.Close()) }
