//go:build !linux

package main

import (
	"context"
	"errors"
)

func inNamespace(context.Context, func() error) error {
	return errors.New("only Linux has network namespaces")
}
