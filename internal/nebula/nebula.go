// Package nebula builds the overlay network: certificate authorities,
// lighthouses and nodes.
//
// A node's private key is made on its host and never leaves it; a CA's private
// key stays in one file on the machine of the provider. Everything else about
// a node is three public files in Dir and the service that reads them, so a
// node can be observed, repaired and removed by its host alone.
//
// The Nebula daemon itself is in the package daemon, which only the agent
// imports.
package nebula

// FieldError says which field of a specification is wrong, by the name that
// the configuration uses, and why.
type FieldError struct {
	Field string
	Err   error
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Err.Error() }

func (e *FieldError) Unwrap() error { return e.Err }
