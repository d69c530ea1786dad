//go:build !linux

package load

import "time"

// sleepThread waits for about d.
func sleepThread(d time.Duration) { time.Sleep(d) }
