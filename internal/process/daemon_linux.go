package process

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Descriptors of a started daemon: it waits for permission on one and reports
// on the other.
const (
	permissionFD = 0
	reportFD     = 3
)

// Await is what a daemon calls first. It returns once the starter has recorded
// the process; when the starter dies before that, it returns an error and the
// daemon has to end, so that no process is left that nobody knows of.
func Await() error {
	if n, _ := unix.Read(permissionFD, make([]byte, 1)); n != 1 {
		return errors.New("wait for the permission to start: the starter has ended")
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	return unix.Dup3(int(null.Fd()), permissionFD, 0)
}

// Report is what a daemon calls once, with nil when it is ready for work, or
// with the reason why it never will be. It may have replaced its program since
// Await.
func Report(err error) {
	text := reportReady
	if err != nil {
		text = err.Error()
	}
	pipe := os.NewFile(reportFD, "report")
	defer pipe.Close()
	// A starter that has died meanwhile needs no report.
	_, _ = pipe.WriteString(text)
}

const reportReady = "ready"
