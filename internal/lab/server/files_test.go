package server

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestFiles compares what the components read with golden files.
func TestFiles(t *testing.T) {
	c, err := build(map[string][]string{
		"node-name": {"edge"}, "node-ip": {"198.18.1.10"},
		"cluster-cidr": {"10.44.0.0/16"}, "service-cidr": {"10.45.0.0/16"},
	})
	if err != nil {
		t.Fatal(err)
	}
	manifests := t.TempDir()
	if err := writeManifests(c, manifests, true); err != nil {
		t.Fatal(err)
	}
	coreDNS, err := os.ReadFile(filepath.Join(manifests, "coredns.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]string{
		"containerd.toml": containerdConfig(c, "/usr/lib/cni"),
		"masquerade.nft":  masquerade(c),
		"coredns.yaml":    string(coreDNS),
	} {
		golden := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestResolvConf(t *testing.T) {
	for _, test := range []struct {
		name, from, want string
		forwards         bool
	}{
		{"usable", "search example\nnameserver 198.18.0.1\n", "search example\nnameserver 198.18.0.1\n", true},
		{"loopback", "nameserver 127.0.0.53\noptions edns0\n", "options edns0\n", false},
		{"empty", "", "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			c := Config{DataDir: dir, ResolvConf: filepath.Join(dir, "from")}
			if err := os.WriteFile(c.ResolvConf, []byte(test.from), 0o644); err != nil {
				t.Fatal(err)
			}
			path, forwards, err := resolvConf(c)
			if err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(path)
			if err != nil || string(got) != test.want || forwards != test.forwards {
				t.Errorf("got %q, forwards %v, %v, want %q, %v", got, forwards, err, test.want, test.forwards)
			}
		})
	}
}
