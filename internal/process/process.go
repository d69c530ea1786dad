// Package process starts programs that outlive their starter and finds them
// again: a process is known by its number, its start time and the boot it
// belongs to, so a number that was given to another program since then is
// never mistaken for it, and never killed.
package process

// ID names one process of this machine for ever.
type ID struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since boot
	Boot  string `json:"boot"`
}

// Daemon is a program that lives on after this process has ended, however it
// ends: it has a session of its own and inherits no descriptor.
type Daemon struct {
	Argv []string
	Env  []string // the whole environment

	// Log is the file that its output is appended to.
	Log string

	// Namespaces are the CLONE_NEW flags of the namespaces it gets for its own.
	Namespaces uintptr
}
