package server

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestGroup starts two programs, of which one ends, and wants to be told which
// and why, and the other one to end with the group.
func TestGroup(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no shell")
	}
	var log bytes.Buffer
	g := newGroup(&log)
	for name, script := range map[string]string{"stays": "exec sleep 1000", "fails": "echo one; echo two >&2; exit 3"} {
		if err := g.start(component{name: name, argv: []string{sh, "-c", script}}); err != nil {
			t.Fatal(err)
		}
	}
	err = g.await(context.Background(), "what never comes", func(context.Context) error { return errors.New("not yet") })
	if want := "fails: exit status 3; its last lines:\none\ntwo"; err == nil || err.Error() != want {
		t.Errorf("got error %v, want %q", err, want)
	}
	began := time.Now()
	g.stop()
	if took := time.Since(began); took > stopGrace {
		t.Errorf("the group took %s to stop", took)
	}
	for _, want := range []string{"[fails] one\n", "[fails] two\n"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log is %q, want it to have %q", log.String(), want)
		}
	}
}
