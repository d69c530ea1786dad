//go:build unix

package bench

import (
	"errors"
	"os"
	"syscall"
)

// lock keeps other processes from writing the samples of the same run. It ends
// with the file, and so with the process.
func lock(file *os.File) error {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errors.New("another run writes there")
	}
	return err
}
