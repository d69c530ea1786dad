package local_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/local"
)

// TestContainer runs a container by containerd and runc on a host, as a
// Kubernetes node does: with overlayfs snapshots and limits on its cgroup.
func TestContainer(t *testing.T) {
	needRoot(t)
	for _, program := range []string{"containerd", "ctr", "runc"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	h := newHost(t, local.NewOpener(t.TempDir()), "node")
	agent, err := h.Agent(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := h.StartService(t.Context(), host.Service{Name: "containerd", Argv: []string{"containerd"}}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "containerd", func() bool {
		_, err := h.Run(t.Context(), host.Command{Argv: []string{"ctr", "version"}})
		return err == nil
	})
	image := `
set -e
mkdir -p /srv/image/layer /srv/image/oci && cd /srv/image
cp ` + agent + ` layer/testbed-agent
tar -C layer -cf layer.tar .
config='{"architecture":"amd64","os":"linux","config":{"Entrypoint":["/testbed-agent"]},"rootfs":{"type":"layers","diff_ids":["sha256:'$(sha256sum layer.tar | cut -d' ' -f1)'"]}}'
printf %s "$config" > config.json
printf %s '[{"Config":"config.json","RepoTags":["localhost/agent:1"],"Layers":["layer.tar"]}]' > manifest.json
tar -cf image.tar config.json manifest.json layer.tar
ctr images import image.tar
`
	if output := shell(t, h, image); !strings.Contains(output, "localhost/agent:1") {
		t.Fatalf("import: %s", output)
	}
	output := shell(t, h, "ctr run --rm --memory-limit 100000000 --cgroup /kubepods/test localhost/agent:1 test 2>&1 || true")
	if !strings.Contains(output, "usage: testbed-agent COMMAND") {
		t.Errorf("the container said: %s", output)
	}
	if mounts := shell(t, h, "ctr snapshots info sha256:$(sha256sum /srv/image/layer.tar | cut -d' ' -f1) | grep -c Committed; ls /var/lib/containerd"); !strings.Contains(mounts, "snapshotter.v1.overlayfs") {
		t.Errorf("snapshots: %s", mounts)
	}
}
