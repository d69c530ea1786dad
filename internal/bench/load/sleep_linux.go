package load

import (
	"time"

	"golang.org/x/sys/unix"
)

// sleepThread has the calling thread sleep for about d. It may end early.
//
// The kernel delays a sleeper by up to the slack of its thread, 50 us unless it
// is told otherwise, to wake it along with others. The thread is whichever one
// the goroutine is on, so it is told each time, which is cheap.
func sleepThread(d time.Duration) {
	const slack = 1 // ns; 0 would set it back to 50 us
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, slack, 0, 0, 0)
	wait := unix.NsecToTimespec(d.Nanoseconds())
	// An interrupted sleep ends early, which the caller sees.
	_ = unix.Nanosleep(&wait, nil)
}
