//go:build !linux

package load

// stampArrivals does nothing: arrivals are not told here.
func (*wire) stampArrivals() {}

// holdStamps does nothing, for the same reason.
func holdStamps() (release func()) { return func() {} }

// quiet takes the connection for usable, which the next request will tell.
func (*wire) quiet() bool { return true }
