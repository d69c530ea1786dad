// Package load is the load generator: the agent's role "load" and the
// protocol in which a run gives it jobs.
//
// A job is a number of equal requests to one URL. Its model says when they are
// sent: in a closed loop when the last one is answered, in an open loop at
// given times, whatever became of earlier ones. Each connection carries one
// request at a time.
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

// Protocol is what a connection speaks.
type Protocol string

const (
	HTTP1 Protocol = "http/1.1"
	// H2C is HTTP/2 without TLS, by prior knowledge.
	H2C Protocol = "h2c"
)

// Protocols lists every protocol.
func Protocols() []Protocol { return []Protocol{HTTP1, H2C} }

// Job is a number of equal requests to one URL.
type Job struct {
	URL           string     `json:"url"`
	Host          string     `json:"host"`           // that the requests ask for; that of the URL when empty
	Protocol      Protocol   `json:"protocol"`       // HTTP1 when empty
	Method        string     `json:"method"`         // GET or POST; when empty, POST with a payload and GET without
	PayloadBytes  int        `json:"payload_bytes"`  // of the request's body; a GET has none
	ResponseBytes int        `json:"response_bytes"` // asked of the function and wanted of the answer's body; 0 leaves its length to the function
	Echo          bool       `json:"echo"`           // the answer has to be the payload, byte by byte
	Connection    Connection `json:"connection"`
	Model         Model      `json:"model"`
	Warmup        int        `json:"warmup"`   // requests of each connection before the measured ones
	Requests      int        `json:"requests"` // measured requests, over all connections of this client
	Client        int        `json:"client"`   // which client of the run this is, from 0
	Clients       int        `json:"clients"`  // how many clients the run has, 0 for 1; several wait for the start signal after the warm-up

	Timeout        time.Duration `json:"timeout"`         // of a whole request, from when it is sent
	ConnectTimeout time.Duration `json:"connect_timeout"` // of name resolution and TCP connect
}

// Count returns how many records the job has.
func (j Job) Count() int { return j.warmups() + j.Requests }

// warmups returns how many warm-up requests the job has.
func (j Job) warmups() int { return j.Warmup * j.Model.Workers() }

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
	case j.Host != "" && !validHost(j.Host):
		return fmt.Errorf("the host that the job asks for is %q; it must be a name or an address, with a port or without", j.Host)
	case j.PayloadBytes < 0 || j.PayloadBytes > maxPayload:
		return fmt.Errorf("the payload of the job is %d bytes; it must be between 0 and %d", j.PayloadBytes, maxPayload)
	case j.ResponseBytes < 0 || j.ResponseBytes > maxPayload:
		return fmt.Errorf("the answer of the job is %d bytes; it must be between 0 and %d", j.ResponseBytes, maxPayload)
	case j.Method != "" && j.Method != http.MethodGet && j.Method != http.MethodPost:
		return fmt.Errorf("the method of the job is %q; write \"GET\" or \"POST\"", j.Method)
	case j.Method == http.MethodGet && j.PayloadBytes > 0:
		return fmt.Errorf("a GET has no body, and the payload is %d bytes; write the method \"POST\"", j.PayloadBytes)
	case j.Protocol != "" && j.Protocol != HTTP1 && j.Protocol != H2C:
		return fmt.Errorf("the protocol of the job is %q; write %q or %q", j.Protocol, HTTP1, H2C)
	case j.Protocol == H2C && target.Scheme != "http":
		return fmt.Errorf("h2c is HTTP/2 without TLS, and the URL of the job is %q; write http:// or the protocol %q", j.URL, HTTP1)
	case j.Requests < 1 || j.Warmup < 0:
		return fmt.Errorf("the job has %d warm-up and %d measured requests; it needs 0 and 1 at least", j.Warmup, j.Requests)
	case j.Client < 0 || j.Client >= max(j.Clients, 1):
		return fmt.Errorf("the job is for client %d of %d; clients count from 0", j.Client, max(j.Clients, 1))
	case j.Timeout <= 0 || j.ConnectTimeout <= 0:
		return errors.New("the job's timeouts must be positive")
	}
	if _, err := ParseConnection(string(j.Connection)); err != nil {
		return err
	}
	return j.Model.Validate()
}

// validHost tells whether a text can be the host of a request.
func validHost(text string) bool {
	parsed, err := url.Parse("http://" + text)
	return err == nil && parsed.Host == text && parsed.Hostname() != ""
}

// host returns the host that the requests ask for.
func (j Job) host(target *url.URL) string {
	if j.Host != "" {
		return j.Host
	}
	return target.Host
}

// method returns the HTTP method of the job's requests.
func (j Job) method() string {
	switch {
	case j.Method != "":
		return j.Method
	case j.PayloadBytes > 0:
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
// that did not happen is 0. For a good answer, Total is what lies between
// Intended and Start, FirstByte and Read together.
type Record struct {
	Seq      int           `json:"seq"`      // from 0 for each client, warm-up included
	Client   int           `json:"client"`   // of the run, from 0
	Warmup   bool          `json:"warmup"`   // sent before the measured ones
	Intended time.Duration `json:"intended"` // when it should have been sent, since the start of the job; Start in a closed loop
	Start    time.Duration `json:"start"`    // when it was sent, since the start of the job

	DNS       time.Duration `json:"dns"`        // name resolution
	Connect   time.Duration `json:"connect"`    // TCP handshake
	TLS       time.Duration `json:"tls"`        // TLS handshake
	Write     time.Duration `json:"write"`      // from having a connection to having handed over the request
	FirstByte time.Duration `json:"first_byte"` // from Start to the first byte of the answer
	Read      time.Duration `json:"read"`       // from the first byte of the answer to the last one
	Total     time.Duration `json:"total"`      // from Intended to the last byte of the answer
	Lag       time.Duration `json:"lag"`        // the part of Total that the client itself caused

	BytesSent     int  `json:"bytes_sent"`     // of the body
	BytesReceived int  `json:"bytes_received"` // of the body
	Status        int  `json:"status"`         // HTTP status, 0 without an answer
	Conn          int  `json:"conn"`           // number of the connection within the client's job, from 1; 0 without one
	Reused        bool `json:"reused"`         // the connection has carried a request before

	Error  ErrorClass `json:"error,omitempty"`  // empty for a good answer
	Detail string     `json:"detail,omitempty"` // what was answered, or why nothing was
}

// Lag is how the client's own part in the times of the measured, good requests
// of a job is distributed. It is zero when there are none.
type Lag struct {
	Median time.Duration `json:"median_ns"`
	P99    time.Duration `json:"p99_ns"`
	Max    time.Duration `json:"max_ns"`
}

// Result is what a job gives back.
type Result struct {
	Started     time.Time `json:"started"`     // when Start of the records counts from, by the clock of the pod
	Collections uint32    `json:"collections"` // garbage collections of the generator during the job
	Lag         Lag       `json:"lag"`
	Records     []Record  `json:"records"` // by Client, then Seq
}
