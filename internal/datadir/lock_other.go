//go:build !unix

package datadir

import (
	"context"
	"errors"
)

func (d Dir) lock(context.Context, string, bool) (func(), error) { return nil, errors.ErrUnsupported }
