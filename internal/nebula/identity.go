package nebula

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/slackhq/nebula/cert"
)

// Identity is what a node's certificate says about it.
type Identity struct {
	Name           string
	Network        netip.Prefix   // overlay address and the size of its network
	UnsafeNetworks []netip.Prefix // that the node routes into
	Groups         []string

	// Duration is how long the certificate lasts; as long as the CA's when 0.
	Duration time.Duration
}

// Check returns, as a *FieldError, what a CA does not let the node be.
func (id Identity) Check(ca cert.Certificate) error {
	if id.Name == "" || len(id.Name) > cert.MaxNameLength {
		return &FieldError{"name", fmt.Errorf("%q is no name for a certificate; use 1 to %d characters", id.Name, cert.MaxNameLength)}
	}
	if !id.Network.IsValid() || id.Network.Addr() == id.Network.Masked().Addr() && id.Network.Addr().BitLen()-id.Network.Bits() > 1 {
		return &FieldError{"network", fmt.Errorf("%s is a network, not the address of a node in it; use for example %s/%d", id.Network, id.Network.Addr().Next(), id.Network.Bits())}
	}
	if ca.Version() == cert.Version1 && !id.Network.Addr().Is4() {
		return &FieldError{"network", fmt.Errorf("%s is IPv6, which CA %q cannot sign with certificates of version 1", id.Network, ca.Name())}
	}
	if !inside(ca.Networks(), id.Network) {
		return &FieldError{"network", fmt.Errorf("%s is outside the networks of CA %q, which are %v", id.Network, ca.Name(), ca.Networks())}
	}
	for _, network := range id.UnsafeNetworks {
		if !inside(ca.UnsafeNetworks(), network) {
			return &FieldError{"unsafe_networks", fmt.Errorf("%s is outside the unsafe networks of CA %q, which are %v", network, ca.Name(), ca.UnsafeNetworks())}
		}
		if network.Addr().Is4() != id.Network.Addr().Is4() {
			return &FieldError{"unsafe_networks", fmt.Errorf("%s and the node's address %s are not of the same IP version", network, id.Network)}
		}
	}
	for _, group := range id.Groups {
		if group == "" || len(ca.Groups()) > 0 && !slices.Contains(ca.Groups(), group) {
			return &FieldError{"groups", fmt.Errorf("%q is no group of CA %q, whose groups are %q", group, ca.Name(), ca.Groups())}
		}
	}
	if id.Duration < 0 {
		return &FieldError{"duration", fmt.Errorf("%s is no time to live; use a positive duration, for example \"720h\"", id.Duration)}
	}
	return nil
}

// inside reports whether one of the networks, or any when there is none,
// contains the prefix.
func inside(networks []netip.Prefix, prefix netip.Prefix) bool {
	return len(networks) == 0 || slices.ContainsFunc(networks, func(network netip.Prefix) bool {
		return network.Contains(prefix.Addr()) && network.Bits() <= prefix.Bits()
	})
}

// Sign makes the certificate of a node for the public key that was made on
// its host. The certificate is valid from a day ago, or from when the CA's is.
func (ca *CA) Sign(id Identity, publicKey []byte, now time.Time) (cert.Certificate, error) {
	if err := id.Check(ca.Certificate); err != nil {
		return nil, err
	}
	end := ca.Certificate.NotAfter().Add(-time.Second)
	if !now.Before(end) {
		return nil, &FieldError{"ca", fmt.Errorf("the certificate of CA %q ended at %s; make a new CA", ca.Certificate.Name(), ca.Certificate.NotAfter().UTC().Format(time.RFC3339))}
	}
	notAfter := end
	if id.Duration > 0 {
		if notAfter = now.Add(id.Duration).Truncate(time.Second); notAfter.After(end) {
			return nil, &FieldError{"duration", fmt.Errorf("%s from now is after the end of CA %q, which is at %s; use a shorter duration", id.Duration, ca.Certificate.Name(), ca.Certificate.NotAfter().UTC().Format(time.RFC3339))}
		}
	}
	notBefore := now.Add(-clockSkew).Truncate(time.Second)
	if notBefore.Before(ca.Certificate.NotBefore()) {
		notBefore = ca.Certificate.NotBefore()
	}
	tbs := cert.TBSCertificate{
		Version:        ca.Certificate.Version(),
		Name:           id.Name,
		Networks:       []netip.Prefix{id.Network},
		UnsafeNetworks: sortedPrefixes(id.UnsafeNetworks),
		Groups:         sorted(id.Groups),
		NotBefore:      notBefore,
		NotAfter:       notAfter,
		PublicKey:      publicKey,
		Curve:          ca.Certificate.Curve(),
	}
	certificate, err := tbs.Sign(ca.Certificate, ca.Certificate.Curve(), ca.key)
	if err != nil {
		return nil, fmt.Errorf("sign the certificate of %q by CA %q: %w", id.Name, ca.Certificate.Name(), err)
	}
	return certificate, nil
}

// Current returns nil when the certificate still says what the identity says,
// is signed by the CA and is valid now; otherwise why it has to be replaced.
func (id Identity) Current(certificate, ca cert.Certificate, now time.Time) error {
	issuer, err := ca.Fingerprint()
	if err != nil {
		return err
	}
	switch {
	case certificate.Issuer() != issuer || !certificate.CheckSignature(ca.PublicKey()):
		return fmt.Errorf("CA %q did not sign it", ca.Name())
	case certificate.Expired(now):
		return errors.New("it is not valid now")
	case certificate.Name() != id.Name:
		return errors.New("its name differs")
	case !slices.Equal(certificate.Networks(), []netip.Prefix{id.Network}):
		return errors.New("its network differs")
	case !slices.Equal(sortedPrefixes(certificate.UnsafeNetworks()), sortedPrefixes(id.UnsafeNetworks)):
		return errors.New("its unsafe networks differ")
	case !slices.Equal(sorted(certificate.Groups()), sorted(id.Groups)):
		return errors.New("its groups differ")
	}
	return nil
}
