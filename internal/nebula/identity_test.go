package nebula

import (
	"crypto/ecdh"
	"crypto/rand"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slackhq/nebula/cert"
)

func identity() Identity {
	return Identity{Name: "edge", Network: netip.MustParsePrefix("198.19.0.11/24"), Groups: []string{"k3s", "edge"}}
}

// publicKey makes a key pair like a host's and returns the public half.
func publicKey(t *testing.T, curve string) []byte {
	t.Helper()
	agreement := ecdh.X25519()
	if curve == "P256" {
		agreement = ecdh.P256()
	}
	key, err := agreement.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key.PublicKey().Bytes()
}

func TestSign(t *testing.T) {
	for _, curve := range Curves {
		for _, version := range []int{1, 2} {
			t.Run(curve, func(t *testing.T) {
				spec := caSpec()
				spec.Curve, spec.Version = curve, version
				ca := newCA(t, spec)
				id := identity()
				id.UnsafeNetworks = []netip.Prefix{netip.MustParsePrefix("10.42.0.0/24")}
				later := now.Add(time.Hour)
				c, err := ca.Sign(id, publicKey(t, curve), later)
				if err != nil {
					t.Fatal(err)
				}
				pool := cert.NewCAPool()
				if err := pool.AddCA(ca.Certificate); err != nil {
					t.Fatal(err)
				}
				if _, err := pool.VerifyCertificate(later, c); err != nil {
					t.Errorf("Nebula refuses it: %v", err)
				}
				if want := later.Add(-24 * time.Hour).Truncate(time.Second); !c.NotBefore().Equal(want) {
					t.Errorf("NotBefore is %s, want a day before it was made: %s", c.NotBefore(), want)
				}
				if want := ca.Certificate.NotAfter().Add(-time.Second); !c.NotAfter().Equal(want) {
					t.Errorf("NotAfter is %s, want a second before the CA's: %s", c.NotAfter(), want)
				}
				if c.Name() != "edge" || !slices.Equal(c.Groups(), []string{"edge", "k3s"}) || c.Version() != cert.Version(version) ||
					!slices.Equal(c.Networks(), []netip.Prefix{id.Network}) || !slices.Equal(c.UnsafeNetworks(), id.UnsafeNetworks) {
					t.Errorf("the certificate says %s", c)
				}
				if err := id.Current(c, ca.Certificate, later); err != nil {
					t.Errorf("not current: %v", err)
				}
			})
		}
	}
}

func TestSignNotBeforeTheCA(t *testing.T) {
	ca := newCA(t, caSpec())
	c, err := ca.Sign(identity(), publicKey(t, "25519"), now.Add(-time.Hour)) // a clock that went back
	if err != nil {
		t.Fatal(err)
	}
	if !c.NotBefore().Equal(ca.Certificate.NotBefore()) {
		t.Errorf("NotBefore is %s, the CA's is %s", c.NotBefore(), ca.Certificate.NotBefore())
	}
}

func TestSignRefuses(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*Identity)
		at     time.Time
		want   string
	}{
		{"network", func(id *Identity) { id.Network = netip.MustParsePrefix("198.19.1.11/24") }, now,
			`network: 198.19.1.11/24 is outside the networks of CA "lab", which are [198.19.0.0/24]`},
		{"wider network", func(id *Identity) { id.Network = netip.MustParsePrefix("198.19.0.11/16") }, now,
			`network: 198.19.0.11/16 is outside the networks of CA "lab"`},
		{"no host address", func(id *Identity) { id.Network = netip.MustParsePrefix("198.19.0.0/24") }, now,
			"network: 198.19.0.0/24 is a network, not the address of a node in it; use for example 198.19.0.1/24"},
		{"group", func(id *Identity) { id.Groups = []string{"cloud"} }, now,
			`groups: "cloud" is no group of CA "lab", whose groups are ["edge" "k3s"]`},
		{"unsafe network of another IP version", func(id *Identity) { id.UnsafeNetworks = []netip.Prefix{netip.MustParsePrefix("2001:2::/64")} }, now,
			"unsafe_networks: 2001:2::/64 and the node's address 198.19.0.11/24 are not of the same IP version"},
		{"longer than the CA", func(id *Identity) { id.Duration = 1001 * time.Hour }, now,
			`duration: 1001h0m0s from now is after the end of CA "lab"`},
		{"negative", func(id *Identity) { id.Duration = -time.Hour }, now, "duration: -1h0m0s is no time to live"},
		{"no name", func(id *Identity) { id.Name = "" }, now, "name: "},
		{"expired CA", func(*Identity) {}, now.Add(1001 * time.Hour), `ca: the certificate of CA "lab" ended at `},
	} {
		t.Run(test.name, func(t *testing.T) {
			id := identity()
			test.change(&id)
			_, err := newCA(t, caSpec()).Sign(id, publicKey(t, "25519"), test.at)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestCurrent(t *testing.T) {
	ca := newCA(t, caSpec())
	c, err := ca.Sign(identity(), publicKey(t, "25519"), now)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name   string
		change func(*Identity)
		ca     *CA
		at     time.Time
		want   string // "" when the certificate still holds
	}{
		{"same", func(*Identity) {}, ca, now, ""},
		{"groups in another order", func(id *Identity) { id.Groups = []string{"edge", "k3s"} }, ca, now, ""},
		{"groups", func(id *Identity) { id.Groups = nil }, ca, now, "groups differ"},
		{"network", func(id *Identity) { id.Network = netip.MustParsePrefix("198.19.0.12/24") }, ca, now, "network differs"},
		{"name", func(id *Identity) { id.Name = "cloud" }, ca, now, "name differs"},
		{"CA", func(*Identity) {}, newCA(t, caSpec()), now, "did not sign it"},
		{"expired", func(*Identity) {}, ca, now.Add(1001 * time.Hour), "not valid now"},
	} {
		t.Run(test.name, func(t *testing.T) {
			id := identity()
			test.change(&id)
			err := id.Current(c, test.ca.Certificate, test.at)
			switch {
			case test.want == "" && err != nil:
				t.Errorf("got %v", err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
