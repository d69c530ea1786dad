package daemon

import (
	"bytes"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	nebulalib "github.com/slackhq/nebula"
	"github.com/slackhq/nebula/cert"
	"github.com/slackhq/nebula/config"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/nebula"
)

func TestKeygen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "nebula", "host.key")
	generate := func(curve string) string {
		t.Helper()
		var out bytes.Buffer
		if err := keygen([]string{"-curve", curve, "-key", path}, &out); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out.String(), "PRIVATE") {
			t.Errorf("it shows a private key:\n%s", &out)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != 0o600 {
			t.Errorf("the file has mode %v, want 0600", info.Mode())
		}
		return out.String()
	}
	first := generate("25519")
	if again := generate("25519"); again != first {
		t.Errorf("it made another key:\n%s%s", first, again)
	}
	p256 := generate("P256")
	if _, _, curve, err := cert.UnmarshalPublicKeyFromPEM([]byte(p256)); err != nil || curve != cert.Curve_P256 {
		t.Errorf("got curve %v, %v, want P256", curve, err)
	}
	if back := generate("25519"); back == first {
		t.Error("the key of another curve was kept somewhere")
	}
	if err := os.WriteFile(path, []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	generate("25519")
	if err := keygen([]string{"-curve", "ed448", "-key", path}, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "ed448") {
		t.Errorf("unknown curve: got %v", err)
	}
}

// Nebula itself takes every configuration that the package nebula renders.
func TestNebulaTakesConfigurations(t *testing.T) {
	paths, err := filepath.Glob("../testdata/*.yml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no configurations: %v", err)
	}
	for _, curve := range nebula.Curves {
		ca, err := nebula.NewCA(nebula.CASpec{Name: "lab", Duration: time.Hour, Curve: curve, Version: 2}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			t.Run(curve+" "+filepath.Base(path), func(t *testing.T) {
				dir := t.TempDir()
				file := func(name string) string { return filepath.Join(dir, name) }
				var public bytes.Buffer
				if err := keygen([]string{"-curve", curve, "-key", file("host.key")}, &public); err != nil {
					t.Fatal(err)
				}
				key, _, _, err := cert.UnmarshalPublicKeyFromPEM(public.Bytes())
				if err != nil {
					t.Fatal(err)
				}
				certificate, err := ca.Sign(nebula.Identity{Name: "node", Network: netip.MustParsePrefix("198.19.0.11/24")}, key, time.Now())
				if err != nil {
					t.Fatal(err)
				}
				for name, c := range map[string]cert.Certificate{"host.crt": certificate, "ca.crt": ca.Certificate} {
					text, err := c.MarshalPEM()
					if err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(file(name), text, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				text, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				text = bytes.ReplaceAll(text, []byte(nebula.Dir), []byte(dir))
				if err := os.WriteFile(file("config.yml"), text, 0o600); err != nil {
					t.Fatal(err)
				}
				var log bytes.Buffer
				l := slog.New(slog.NewTextHandler(&log, nil))
				c := config.NewC(l)
				if err := c.Load(file("config.yml")); err != nil {
					t.Fatal(err)
				}
				if _, err := nebulalib.Main(c, true, "", l, nil); err != nil {
					t.Fatal(err)
				}
				for line := range strings.Lines(log.String()) {
					if strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR") {
						t.Error(line)
					}
				}
				d := &daemon{}
				if err := d.note(file("config.yml")); err != nil {
					t.Fatal(err)
				}
				if d.read.Fixed.Device != "nebula1" || d.read.Fixed.Curve != curve {
					t.Errorf("noted %+v", d.read)
				}
			})
		}
	}
}
