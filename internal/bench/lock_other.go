//go:build !unix

package bench

import "os"

// Nothing runs a benchmark on a system without these locks: its testbed needs
// Linux.
func lock(*os.File) error { return nil }
