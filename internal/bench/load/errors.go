package load

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
)

// ErrorClass says in one word why a request has no good answer.
type ErrorClass string

const (
	DNSError       ErrorClass = "dns"             // the name was not resolved
	ConnectTimeout ErrorClass = "connect_timeout" // no connection within the connect timeout
	Refused        ErrorClass = "refused"         // the connection was refused
	Unreachable    ErrorClass = "unreachable"     // no route to the address
	Reset          ErrorClass = "reset"           // the connection was reset
	Closed         ErrorClass = "closed"          // the connection was closed before the whole answer
	Timeout        ErrorClass = "timeout"         // no whole answer within the timeout
	StatusError    ErrorClass = "status"          // an answer with another status than 2xx
	BodyError      ErrorClass = "body"            // an answer that is not the payload that was sent
	OtherError     ErrorClass = "other"
)

// classify sorts the error of a request that did or did not have a connection.
func classify(err error, connected bool) ErrorClass {
	var dns *net.DNSError
	switch {
	case err == nil:
		return ""
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), isTimeout(err):
		if !connected {
			return ConnectTimeout
		}
		return Timeout
	case errors.As(err, &dns):
		return DNSError
	case errors.Is(err, syscall.ECONNREFUSED):
		return Refused
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return Unreachable
	// What ended a stream of HTTP/2 has no exported error.
	case errors.Is(err, syscall.ECONNRESET), strings.Contains(err.Error(), "received from peer"):
		return Reset
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.EPIPE), strings.Contains(err.Error(), "GOAWAY"):
		return Closed
	}
	return OtherError
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}
