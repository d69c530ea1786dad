package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// Run is one server: it starts the components in the order of their needs and
// ends when ctx does, or with an error when a component ends by itself.
func Run(ctx context.Context, c Config, log io.Writer) error {
	// The components end with the thread that started them.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	s := &starting{Config: c, log: log, began: time.Now()}
	s.say("stand-in for k3s %s: node %s (%s), pods %s, services %s", Version, c.NodeName, c.NodeIP, c.ClusterCIDR, c.ServiceCIDR)
	if len(c.Unused) > 0 {
		s.say("settings that do nothing in the stand-in: %s", strings.Join(c.Unused, ", "))
	}
	if err := s.prepare(ctx); err != nil {
		return err
	}
	images, err := watchImages(filepath.Join(c.DataDir, "agent/images"))
	if err != nil {
		return err
	}
	defer images.close()

	g := newGroup(log)
	defer g.stop()
	if err := s.start(ctx, g, images); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	go images.importNew(ctx, func(err error) { s.say("%v", err) })
	return s.last(ctx, g)
}

// last waits for the end.
func (s *starting) last(ctx context.Context, g *group) error {
	select {
	case <-ctx.Done():
		s.say("stopping; the pods stay")
		return nil
	case p := <-g.ended:
		return p.failure()
	}
}

// starting is a server on its way up.
type starting struct {
	Config
	log   io.Writer
	began time.Time

	pki   pki
	files files
}

func (s *starting) say(format string, args ...any) {
	fmt.Fprintf(s.log, "[k3s] %6.2fs %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

func (s *starting) manifests() string { return filepath.Join(s.DataDir, "server/manifests") }

// prepare writes all that the components read.
func (s *starting) prepare(ctx context.Context) error {
	// Paths in the data folder go into the components' configurations.
	var err error
	if s.DataDir, err = filepath.Abs(s.DataDir); err != nil {
		return fmt.Errorf("find the data folder: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(s.DataDir, "server/db"), 0o700); err != nil {
		return fmt.Errorf("make the data folder: %w", err)
	}
	if err := errors.Join(prepareNode(ctx, s.Config), fillCpuset()); err != nil {
		return err
	}
	if s.pki, err = preparePKI(s.Config, time.Now()); err != nil {
		return err
	}
	ca, err := os.ReadFile(s.pki.serverCA.certFile())
	if err != nil {
		return fmt.Errorf("read the server's CA: %w", err)
	}
	if _, err := prepareToken(s.DataDir, s.Token, certHash(ca)); err != nil {
		return err
	}
	resolv, forwards, err := resolvConf(s.Config)
	if err != nil {
		return err
	}
	if err := writeManifests(s.Config, s.manifests(), forwards); err != nil {
		return err
	}
	s.files = filesOf(s.Config)
	return errors.Join(writeContainerd(s.Config, s.files), writeNode(s.Config, s.pki, s.files, resolv), writeServer(s.Config, s.pki, s.files))
}

// start brings the components up: the images come in while the API server
// starts, which takes longest; the kubelet follows both.
func (s *starting) start(ctx context.Context, g *group, images *imageFolder) error {
	if err := startAll(g, kine(s.Config, s.files), containerd(s.files)); err != nil {
		return err
	}
	if err := g.await(ctx, "kine", dials(s.files.kine)); err != nil {
		return err
	}
	if err := g.start(apiServer(s.Config, s.pki, s.files)); err != nil {
		return err
	}
	if err := g.await(ctx, "containerd", dials(ContainerdSocket)); err != nil {
		return err
	}
	imported := make(chan error, 1)
	go func() { imported <- images.importAll(ctx) }()

	api := newAPI(s.Config, s.pki)
	if err := g.await(ctx, "the API server", func(ctx context.Context) error { return api.get(ctx, "/readyz", nil) }); err != nil {
		return err
	}
	s.say("the API server is ready")
	if err := startAll(g, controllerManager(s.Config, s.pki, s.files), kubeScheduler(s.Config, s.files)); err != nil {
		return err
	}
	if err := <-imported; err != nil {
		return err
	}
	if err := s.startNode(ctx, g); err != nil {
		return err
	}
	var refused error
	err := g.await(ctx, "the add-ons", func(ctx context.Context) error {
		err := api.applyManifests(ctx, s.manifests())
		if temporary(err) {
			return err
		}
		refused = err
		return nil
	})
	if err := errors.Join(err, refused); err != nil {
		return err
	}
	if err := notifyReady(); err != nil {
		return err
	}
	if err := g.await(ctx, "the node", func(ctx context.Context) error { return api.nodeReady(ctx, s.NodeName) }); err != nil {
		return err
	}
	s.say("node %s is ready", s.NodeName)
	return nil
}

// startNode starts the components of a node, with the network of its pods.
func (s *starting) startNode(ctx context.Context, g *group) error {
	network, err := newFlannel(s.Config, s.pki, s.files)
	if err != nil {
		return err
	}
	go network.run(ctx, func(err error) { s.say("%v", err) })
	return startAll(g, kubelet(s.Config, s.files), kubeProxy(s.Config, s.files))
}

func startAll(g *group, components ...component) error {
	for _, c := range components {
		if err := g.start(c); err != nil {
			return err
		}
	}
	return nil
}

func dials(socket string) func(context.Context) error {
	return func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
		if err != nil {
			return err
		}
		return conn.Close()
	}
}

// notifyReady tells systemd, where it waits for that, that the server serves.
func notifyReady() error {
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return nil
	}
	conn, err := net.Dial("unixgram", socket)
	if err != nil {
		return fmt.Errorf("notify the service manager: %w", err)
	}
	defer conn.Close()
	_, err = conn.Write([]byte("READY=1"))
	return err
}
