package kube

import (
	"context"
	"errors"
	"io/fs"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
)

// marked is an error that counts as one of the sentinels. It hides its chain
// but for the end of a context, so that a missing file or host on the way to
// a cluster is never taken for a missing object.
type marked struct {
	error
	mark error
}

func (m marked) Is(target error) bool {
	if target == context.Canceled || target == context.DeadlineExceeded {
		return errors.Is(m.error, target)
	}
	return target == m.mark
}

// refusal keeps the chain of an answer of the API server.
type refusal struct{ marked }

func (r refusal) Unwrap() error { return r.error }

func notExist(err error) error { return refusal{marked{err, fs.ErrNotExist}} }

// classify marks an error of a request as the package promises.
func classify(err error) error {
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return nil
	case errors.As(err, &status):
		if apierrors.IsNotFound(err) {
			return notExist(err)
		}
		return err
	case errors.Is(err, context.Canceled):
		return err
	}
	return marked{err, host.ErrUnreachable}
}

// namespaceTerminating is the cause that the API server gives when it refuses
// to put an object into a namespace that is being removed.
const namespaceTerminating metav1.CauseType = "NamespaceTerminating"

// transient reports whether the same request may succeed later without anyone
// changing it: the server starts or is busy, or a webhook is not up yet.
func transient(err error) bool {
	return errors.Is(err, host.ErrUnreachable) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) ||
		apierrors.IsInternalError(err) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) ||
		apierrors.HasStatusCause(err, namespaceTerminating)
}
