package load

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Connection says what happens to a TCP connection between requests: "reuse",
// "new", or "reuse:N" with N from 2.
type Connection string

const (
	// Reuse keeps a connection for the whole job.
	Reuse Connection = "reuse"
	// New makes a connection for each request and closes it afterwards.
	New Connection = "new"
)

// ReuseFor makes a new connection after every n requests.
func ReuseFor(n int) Connection { return Connection(fmt.Sprintf("%s:%d", Reuse, n)) }

// Connections lists the connection modes that a run has unless it says
// otherwise.
func Connections() []Connection { return []Connection{Reuse, New} }

// ParseConnection reads a connection mode.
func ParseConnection(text string) (Connection, error) {
	c := Connection(text)
	if c == Reuse || c == New {
		return c, nil
	}
	number, ok := strings.CutPrefix(text, string(Reuse)+":")
	n, err := strconv.Atoi(number)
	if !ok || err != nil || n < 2 || ReuseFor(n) != c {
		return "", fmt.Errorf("the connection mode is %q; write \"reuse\", \"new\", or \"reuse:N\" for a new connection after every N requests, with N from 2, for example \"reuse:10\"", text)
	}
	return c, nil
}

// limit returns how many requests a connection carries at most, 0 when any
// number.
func (c Connection) limit() int {
	switch number, ok := strings.CutPrefix(string(c), string(Reuse)+":"); {
	case c == New:
		return 1
	case ok:
		n, _ := strconv.Atoi(number) // of a mode that was parsed before
		return n
	}
	return 0
}

// Steady tells whether a request belongs to the steady state of its mode: with
// Reuse it has to be sent over a connection that was there, in the other modes
// new connections are part of what is measured.
func (c Connection) Steady(reused bool) bool { return reused || c != Reuse }

// Compare orders connection modes for tables: reuse, new, then reuse for fewer
// requests before reuse for more.
func (c Connection) Compare(other Connection) int {
	rank := func(c Connection) int { return slices.Index(Connections(), c) }
	a, b := rank(c), rank(other)
	switch {
	case a >= 0 && b >= 0:
		return cmp.Compare(a, b)
	case a >= 0:
		return -1
	case b >= 0:
		return 1
	}
	return cmp.Compare(c.limit(), other.limit())
}
