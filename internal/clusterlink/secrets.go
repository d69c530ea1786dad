package clusterlink

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/clusterlink-net/clusterlink/pkg/bootstrap"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

// Names that ClusterLink's control plane and data plane find their
// certificates by, as its own deployment tool writes them.
const (
	siteSecret         = "cl-ca"
	controlplaneSecret = controlplaneName
	dataplaneSecret    = dataplaneName
	peerSecret         = "cl-peer"
)

// secretNames is in the order of making: what is complete has the last one.
var secretNames = []string{siteSecret, controlplaneSecret, dataplaneSecret, peerSecret}

// versionAnnotation holds PeerSpec.CertificateVersion on the peer's Secret.
const versionAnnotation = "testbed.local/certificate-version"

// secret is the data of one Secret.
type secret map[string][]byte

// secrets are the certificates of a peer, by the name of the Secret.
type secrets map[string]secret

// issue makes all certificates of a peer: its own, signed by the fabric, and
// those that its control plane and data plane trust each other by, signed by
// an authority that is made for this and forgotten.
func issue(ctx context.Context, fabric *Fabric, peer string) (secrets, error) {
	var own, site, controlplane, dataplane *bootstrap.Certificate
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		own, err = certificate(ctx, func() (*bootstrap.Certificate, error) { return bootstrap.CreatePeerCertificate(peer, fabric.authority) })
		return err
	})
	group.Go(func() (err error) {
		if site, err = certificate(ctx, bootstrap.CreateCACertificate); err != nil {
			return err
		}
		if controlplane, err = certificate(ctx, func() (*bootstrap.Certificate, error) { return bootstrap.CreateControlplaneCertificate(site) }); err != nil {
			return err
		}
		dataplane, err = certificate(ctx, func() (*bootstrap.Certificate, error) { return bootstrap.CreateDataplaneCertificate(site) })
		return err
	})
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("make the certificates of peer %s: %w", peer, err)
	}
	return secrets{
		siteSecret:         {"ca": site.RawCert()},
		controlplaneSecret: {"cert": controlplane.RawCert(), "key": controlplane.RawKey()},
		dataplaneSecret:    {"cert": dataplane.RawCert(), "key": dataplane.RawKey()},
		peerSecret:         {"cert.pem": own.RawCert(), "key.pem": own.RawKey(), "ca.pem": fabric.authority.RawCert()},
	}, nil
}

// certificate makes a certificate, or stops waiting for it when ctx ends: its
// RSA key of 4096 bits takes seconds to find, and the search cannot be ended.
func certificate(ctx context.Context, create func() (*bootstrap.Certificate, error)) (*bootstrap.Certificate, error) {
	type result struct {
		made *bootstrap.Certificate
		err  error
	}
	found := make(chan result, 1) // the search ends without a listener, too
	go func() {
		made, err := create()
		found <- result{made, err}
	}()
	select {
	case r := <-found:
		return r.made, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// verify says why the certificates cannot serve the peer in the fabric, if
// they cannot.
func (s secrets) verify(fabric *Fabric, peer string) error {
	if got := string(firstCertificate(s[peerSecret]["ca.pem"])); got != string(firstCertificate([]byte(fabric.Certificate))) {
		return fmt.Errorf("the cluster belongs to another fabric than %s", fabric.Name)
	}
	certificate, err := s.check(peerSecret, "cert.pem", "key.pem", fabric.roots, peer, x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth)
	if err != nil {
		return err
	}
	if len(certificate.DNSNames) != 1 || certificate.DNSNames[0] != peer {
		return fmt.Errorf("the certificate is for %v, not for peer %s", certificate.DNSNames, peer)
	}
	site := x509.NewCertPool()
	if !site.AppendCertsFromPEM(s[siteSecret]["ca"]) {
		return errors.New("the site has no certificate authority")
	}
	if _, err := s.check(controlplaneSecret, "cert", "key", site, controlplaneSecret, x509.ExtKeyUsageServerAuth); err != nil {
		return err
	}
	_, err = s.check(dataplaneSecret, "cert", "key", site, dataplaneSecret, x509.ExtKeyUsageClientAuth)
	return err
}

func (s secrets) check(name, certificateKey, privateKey string, roots *x509.CertPool, dnsName string, usages ...x509.ExtKeyUsage) (*x509.Certificate, error) {
	certificate, err := parseCertificate(s[name][certificateKey])
	if err != nil {
		return nil, fmt.Errorf("certificate %s: %w", name, err)
	}
	if err := sameKey(certificate, s[name][privateKey]); err != nil {
		return nil, fmt.Errorf("certificate %s: %w", name, err)
	}
	for _, usage := range usages {
		if _, err := certificate.Verify(x509.VerifyOptions{DNSName: dnsName, Roots: roots, KeyUsages: []x509.ExtKeyUsage{usage}}); err != nil {
			return nil, fmt.Errorf("certificate %s: %w", name, err)
		}
	}
	return certificate, nil
}

// objects renders the certificates as Secrets of the system namespace.
func (s secrets) objects(version string) []*unstructured.Unstructured {
	var objects []*unstructured.Unstructured
	for _, name := range secretNames {
		data := map[string]any{}
		for key, value := range s[name] {
			data[key] = base64.StdEncoding.EncodeToString(value)
		}
		metadata := map[string]any{"name": name, "namespace": SystemNamespace}
		if name == peerSecret {
			metadata["annotations"] = map[string]any{versionAnnotation: version}
		}
		objects = append(objects, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data,
		}})
	}
	return objects
}

func secretRef(name string) kube.Ref {
	return kube.Ref{APIVersion: "v1", Kind: "Secret", Namespace: SystemNamespace, Name: name}
}

// secretData returns the decoded content of a Secret.
func secretData(object *unstructured.Unstructured) (secret, error) {
	encoded, _, err := unstructured.NestedStringMap(object.Object, "data")
	if err != nil {
		return nil, err
	}
	data := secret{}
	for key, value := range encoded {
		if data[key], err = base64.StdEncoding.DecodeString(value); err != nil {
			return nil, fmt.Errorf("decode %s of Secret %s: %w", key, object.GetName(), err)
		}
	}
	return data, nil
}
