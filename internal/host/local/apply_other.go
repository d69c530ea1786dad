//go:build !linux

package local

import (
	"context"
	"errors"
)

// errNotLinux says where local hosts can be made.
var errNotLinux = errors.New("local hosts need Linux; run on a Linux machine, a virtual one is enough")

// Check fails: local hosts need Linux.
func Check() error { return errNotLinux }

// Create fails: local hosts need Linux.
func (o *Opener) Create(context.Context, Spec) (Status, error) { return Status{}, errNotLinux }

// Apply fails: local hosts need Linux.
func (o *Opener) Apply(context.Context, Spec) (Status, error) { return Status{}, errNotLinux }

// Observe fails: local hosts need Linux.
func (o *Opener) Observe(context.Context, string) (Status, error) { return Status{}, errNotLinux }

// Remove fails: local hosts need Linux.
func (o *Opener) Remove(context.Context, string) error { return errNotLinux }
