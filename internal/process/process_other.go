//go:build !linux

package process

import (
	"context"
	"errors"
)

// Of fails: only Linux machines run testbeds.
func Of(int) (ID, error) { return ID{}, errors.ErrUnsupported }

// Alive reports false: only Linux machines run testbeds.
func (id ID) Alive() bool { return false }

// Kill fails: only Linux machines run testbeds.
func (id ID) Kill(context.Context) error { return errors.ErrUnsupported }

// Start fails: only Linux machines run testbeds.
func (d Daemon) Start(context.Context, func(ID) error) (ID, error) {
	return ID{}, errors.ErrUnsupported
}
