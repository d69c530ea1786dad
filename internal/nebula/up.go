package nebula

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"syscall"
	"time"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
)

const (
	// pollEvery is how often a daemon on its way up is asked.
	pollEvery = 100 * time.Millisecond

	// answerWithin is how long a host with a tunnel may leave questions
	// unanswered before it counts as no lighthouse: nodes announce themselves
	// every 10 seconds, and a lighthouse answers from then on, unless the
	// announcement is lost.
	answerWithin = 25 * time.Second

	// maxRestarts is how often the daemon may end before its start has failed:
	// once for an address or a device that was not there yet.
	maxRestarts = 2
)

// bringUp starts, reloads or restarts the daemon, whichever the wanted state
// needs, and returns when it is up.
func bringUp(ctx context.Context, h host.Host, agent string, wanted Running) error {
	err := h.StartService(ctx, host.Service{
		Name:  serviceName,
		Argv:  []string{agent, "nebula", "run", "-config", configPath},
		After: []string{"time-sync.target"}, // certificates have dates
		Confine: &host.Confinement{
			// A device with addresses and routes, ports of any number, pings.
			Capabilities: []string{"CAP_NET_ADMIN", "CAP_NET_BIND_SERVICE", "CAP_NET_RAW"},
			Devices:      []string{"/dev/net/tun"},
			Writes:       []string{path.Dir(StatusSocket)},
		},
	})
	if err != nil {
		return err
	}
	before, err := h.Service(ctx, serviceName)
	if err != nil {
		return err
	}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	changed, tunnelSince := false, map[string]time.Time{}
	why := errors.New("it was not asked") // why it is not up
	for {
		running, err := ask(ctx, h)
		switch {
		case err != nil && ctx.Err() == nil:
			if fatal := gaveUp(ctx, h, before.Restarts); fatal != nil {
				return fatal
			}
			why = fmt.Errorf("the daemon does not answer: %w", err)
		case err != nil: // because the time is over; why is what it was
		case running.toBecome(wanted) == keep:
			if why = running.up(wanted, tunnelSince); why == nil || errors.Is(why, errNoLighthouse) {
				return why
			}
		case changed:
			why = errors.New("the daemon has not read its files again")
		default:
			if err := change(ctx, h, running.toBecome(wanted)); err != nil {
				return err
			}
			changed = true
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", why, ctx.Err())
		}
	}
}

func change(ctx context.Context, h host.Host, a action) error {
	if a == restart {
		return h.RestartService(ctx, serviceName)
	}
	return h.SignalService(ctx, serviceName, syscall.SIGHUP)
}

// gaveUp returns an error when the daemon ends again and again.
func gaveUp(ctx context.Context, h host.Host, restarts int) error {
	status, err := h.Service(ctx, serviceName)
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("the service was removed while it started")
	}
	if err == nil && status.Restarts-restarts >= maxRestarts {
		return fmt.Errorf("the daemon ends after each start, with %s", status.Exit)
	}
	return nil // unreachable now, perhaps not at the next try
}

var errNoLighthouse = errors.New("it is not a lighthouse; reference a testbed_nebula_lighthouse instead")

// up returns nil when the daemon uses the wanted certificate and has all its
// lighthouses, else what is missing. It notes in tunnelSince when the tunnel to
// a lighthouse was first seen.
func (r Running) up(wanted Running, tunnelSince map[string]time.Time) error {
	if r.Certificate != wanted.Certificate {
		return errors.New("the daemon refused the new certificate")
	}
	for _, l := range r.Lighthouses {
		name := l.Address.String()
		switch {
		case !l.Tunnel:
			return fmt.Errorf("lighthouse %s does not answer: there is no tunnel to it", name)
		case !l.Answers:
			if tunnelSince[name].IsZero() {
				tunnelSince[name] = time.Now()
			}
			if time.Since(tunnelSince[name]) > answerWithin {
				return fmt.Errorf("%s has a tunnel but answers no question for an address: %w", name, errNoLighthouse)
			}
			return fmt.Errorf("lighthouse %s has a tunnel but answers no question for an address", name)
		case !l.Echoes:
			return fmt.Errorf("lighthouse %s has a tunnel but answers no ping over the overlay", name)
		}
	}
	return nil
}

// ask returns what the daemon on the host tells about itself.
func ask(ctx context.Context, h host.Host) (Running, error) {
	connection, err := h.Dial(ctx, "unix", StatusSocket)
	if err != nil {
		return Running{}, err
	}
	defer connection.Close()
	stop := context.AfterFunc(ctx, func() { connection.Close() })
	defer stop()
	var running Running
	if err := json.NewDecoder(connection).Decode(&running); err != nil {
		return Running{}, fmt.Errorf("read the daemon's status: %w", err)
	}
	return running, nil
}

// lastLog returns the end of the daemon's log for an error message. It works
// after ctx has ended, too.
func lastLog(ctx context.Context, h host.Host) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	log, err := h.ServiceLog(ctx, serviceName, 10)
	if err != nil || len(log) == 0 {
		return ""
	}
	return "; the daemon's last lines:\n" + strings.TrimSpace(string(log))
}
