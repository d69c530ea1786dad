// Package conformance is the suite by which Knative's networking judges an
// ingress. It is built into a program that runs where a client of the ingress
// would, beside a cluster that has one.
package conformance

import (
	"testing"

	"knative.dev/networking/test/conformance/ingress"
)

func TestIngress(t *testing.T) { ingress.RunConformance(t) }
