package server

import (
	"context"
	"io"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// RunAgent is one node of another server's cluster: it joins and runs the
// components of a node until ctx ends, or with an error when a component ends
// by itself.
func RunAgent(ctx context.Context, c Config, log io.Writer) error {
	// The components end with the thread that started them.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	s := &starting{Config: c, log: log, began: time.Now(), files: filesOf(c)}
	s.say("stand-in for k3s %s: node %s (%s) of %s", Version, c.NodeName, c.NodeIP, c.Server)
	if len(c.Unused) > 0 {
		s.say("settings that do nothing in the stand-in: %s", strings.Join(c.Unused, ", "))
	}
	if err := writeContainerd(s.Config, s.files); err != nil {
		return err
	}
	images, err := watchImages(filepath.Join(c.DataDir, "agent/images"))
	if err != nil {
		return err
	}
	defer images.close()

	g := newGroup(log)
	defer g.stop()
	if err := s.startAgent(ctx, g, images); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	go images.importNew(ctx, func(err error) { s.say("%v", err) })
	return s.last(ctx, g)
}

// startAgent brings the node up while its images come in.
func (s *starting) startAgent(ctx context.Context, g *group, images *imageFolder) error {
	if err := g.start(containerd(s.files)); err != nil {
		return err
	}
	if err := g.await(ctx, "containerd", dials(ContainerdSocket)); err != nil {
		return err
	}
	imported := make(chan error, 1)
	go func() { imported <- images.importAll(ctx) }()

	var refused error
	err := g.await(ctx, "the server", func(ctx context.Context) (err error) {
		s.Config, s.pki, err = join(ctx, s.Config, nodePasswordPath)
		if temporary(err) {
			return err
		}
		refused = err
		return nil
	})
	if err == nil {
		err = refused
	}
	if err != nil {
		return err
	}
	s.say("joined the cluster")
	if err := prepareNode(ctx, s.Config); err != nil {
		return err
	}
	if err := fillCpuset(); err != nil {
		return err
	}
	resolv, _, err := resolvConf(s.Config)
	if err != nil {
		return err
	}
	if err := writeNode(s.Config, s.pki, s.files, resolv); err != nil {
		return err
	}
	if err := <-imported; err != nil {
		return err
	}
	if err := s.startNode(ctx, g); err != nil {
		return err
	}
	if err := notifyReady(); err != nil {
		return err
	}
	api := newAPIAs(s.Config, s.pki, s.pki.node)
	if err := g.await(ctx, "the node", func(ctx context.Context) error { return api.nodeReady(ctx, s.NodeName) }); err != nil {
		return err
	}
	s.say("node %s is ready", s.NodeName)
	return nil
}
