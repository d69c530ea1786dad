package server

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// TestTemporary tells answers that are worth asking for again from those that
// stay.
func TestTemporary(t *testing.T) {
	done := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/slow":
			<-done
		case "/busy":
			http.Error(w, "starting", http.StatusServiceUnavailable)
		case "/forbidden":
			http.Error(w, "no", http.StatusForbidden)
		default:
			_, _ = io.WriteString(w, "{}")
		}
	}))
	defer server.Close()
	defer close(done)
	a := &api{base: server.URL, client: &http.Client{Timeout: 100 * time.Millisecond}}
	gone := httptest.NewServer(nil)
	gone.Close()
	for _, test := range []struct {
		base, path         string
		fails, temporarily bool
	}{
		{server.URL, "/fine", false, false},
		{server.URL, "/slow", true, true},
		{server.URL, "/busy", true, true},
		{server.URL, "/forbidden", true, false},
		{gone.URL, "/fine", true, true},
	} {
		a.base = test.base
		if err := a.get(t.Context(), test.path, nil); (err != nil) != test.fails || temporary(err) != test.temporarily {
			t.Errorf("%s: got error %v, temporary: %t", test.path, err, temporary(err))
		}
	}
}
