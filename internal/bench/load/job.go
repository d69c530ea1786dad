// Package load is the load generator: the agent's role "load" and the
// protocol in which a run gives it jobs.
//
// A job is a closed loop with one request in flight: the next request is sent
// when the answer to the last one has been read and the think time has passed.
// Its records are response times of single requests, never throughput and
// never latency under a given load.
//
// A generator serves from inside the client pod and refuses to start anywhere
// else, so that traffic never leaves the testbed.
package load

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// Connection says what happens to the TCP connection between requests.
type Connection string

const (
	// Reuse keeps exactly one connection for the whole job.
	Reuse Connection = "reuse"
	// New makes a connection for each request and closes it afterwards.
	New Connection = "new"
)

// Connections lists every connection mode.
func Connections() []Connection { return []Connection{Reuse, New} }

// Job is a sequence of equal requests to one URL.
type Job struct {
	URL          string     `json:"url"`
	PayloadBytes int        `json:"payload_bytes"` // 0 sends a GET without a body, more a POST
	Echo         bool       `json:"echo"`          // the answer has to be the payload, byte by byte
	Connection   Connection `json:"connection"`
	Warmup       int        `json:"warmup"`   // requests before the measured ones
	Requests     int        `json:"requests"` // measured requests

	ThinkTime      time.Duration `json:"think_time"`      // between an answer and the next request
	Timeout        time.Duration `json:"timeout"`         // of a whole request
	ConnectTimeout time.Duration `json:"connect_timeout"` // of name resolution and TCP connect
}

// maxPayload bounds what one request may send, since the generator holds the
// payload and the answer in memory.
const maxPayload = 64 << 20

// Validate reports the first thing that makes the job impossible.
func (j Job) Validate() error {
	target, err := url.Parse(j.URL)
	switch {
	case err != nil:
		return fmt.Errorf("read the URL of the job: %w", err)
	case target.Scheme != "http" && target.Scheme != "https", target.Host == "":
		return fmt.Errorf("the URL of the job is %q; it must look like http://host:port/path", j.URL)
	case j.PayloadBytes < 0 || j.PayloadBytes > maxPayload:
		return fmt.Errorf("the payload of the job is %d bytes; it must be between 0 and %d", j.PayloadBytes, maxPayload)
	case j.Connection != Reuse && j.Connection != New:
		return fmt.Errorf("the connection mode of the job is %q; it must be %q or %q", j.Connection, Reuse, New)
	case j.Requests < 1 || j.Warmup < 0:
		return fmt.Errorf("the job has %d warm-up and %d measured requests; it needs 0 and 1 at least", j.Warmup, j.Requests)
	case j.ThinkTime < 0 || j.Timeout <= 0 || j.ConnectTimeout <= 0:
		return errors.New("the job's think time must not be negative and its timeouts must be positive")
	}
	return nil
}

// method returns the HTTP method of the job's requests.
func (j Job) method() string {
	if j.PayloadBytes > 0 {
		return http.MethodPost
	}
	return http.MethodGet
}

// payload returns the bytes that every request of the job sends. Their content
// depends on the length only and does not compress well.
func (j Job) payload() []byte {
	payload := make([]byte, j.PayloadBytes)
	state := uint32(2463534242)
	for i := range payload {
		state ^= state << 13
		state ^= state >> 17
		state ^= state << 5
		payload[i] = byte(state >> 24)
	}
	return payload
}

// Record is one request. Durations are JSON numbers of nanoseconds; a phase
// that did not happen is 0.
type Record struct {
	Seq    int           `json:"seq"`    // from 0, warm-up included
	Warmup bool          `json:"warmup"` // sent before the measured ones
	Start  time.Duration `json:"start"`  // since the start of the job

	DNS       time.Duration `json:"dns"`        // name resolution
	Connect   time.Duration `json:"connect"`    // TCP handshake
	TLS       time.Duration `json:"tls"`        // TLS handshake
	Write     time.Duration `json:"write"`      // from having a connection to having handed over the request
	FirstByte time.Duration `json:"first_byte"` // from the start of the request to the first byte of the answer
	Total     time.Duration `json:"total"`      // from the start of the request to the last byte of the answer

	BytesSent     int  `json:"bytes_sent"`     // of the body
	BytesReceived int  `json:"bytes_received"` // of the body
	Status        int  `json:"status"`         // HTTP status, 0 without an answer
	Conn          int  `json:"conn"`           // number of the connection within the job, from 1; 0 without one
	Reused        bool `json:"reused"`         // the connection has carried a request before

	Error  ErrorClass `json:"error,omitempty"`  // empty for a good answer
	Detail string     `json:"detail,omitempty"` // what was answered, or why nothing was
}

// Result is what a job gives back.
type Result struct {
	Started     time.Time `json:"started"`     // when Start of the records counts from, by the clock of the pod
	Collections uint32    `json:"collections"` // garbage collections of the generator during the job
	Records     []Record  `json:"records"`
}
