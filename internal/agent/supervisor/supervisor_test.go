package supervisor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLogIsBounded(t *testing.T) {
	log := &logFile{path: filepath.Join(t.TempDir(), "service.log")}
	if err := log.open(); err != nil {
		t.Fatal(err)
	}
	line := strings.Repeat("x", 1<<20)
	for i := range 3 * logSize >> 20 {
		log.append(fmt.Appendf(nil, "%d %s\n", i, line))
	}
	log.append([]byte("last but one\nlast"))
	log.Close()
	log.append([]byte("too late\n"))
	var size int64
	for _, path := range []string{log.path, log.path + ".1"} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	if size > 2*logSize+2<<20 {
		t.Errorf("the log takes %d bytes", size)
	}
	for lines, want := range map[int]string{0: "", 1: "last", 2: "last but one\nlast"} {
		if got, err := log.tail(lines); err != nil || string(got) != want {
			t.Errorf("last %d lines: %q, %v", lines, got, err)
		}
	}
	if got, err := log.tail(1 << 20); err != nil || int64(len(got)) != size {
		t.Errorf("all lines: %d of %d bytes, %v", len(got), size, err)
	}
}

func TestResolvers(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	stub := write("stub", "# by systemd\nnameserver 127.0.0.53\noptions edns0\n")
	full := write("full", "search example.org\nnameserver 198.18.0.53\nnameserver ::1\nnameserver fd00::53\n")
	for _, test := range []struct {
		files []string
		want  string
	}{
		{[]string{stub, full}, "nameserver 198.18.0.53\nnameserver fd00::53\n"},
		{[]string{filepath.Join(dir, "none"), stub}, "# The machine has no name server outside itself.\n"},
	} {
		if diff := cmp.Diff(test.want, resolvers(test.files...)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestLookPath(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "data"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	env := []string{"PATH=/nowhere", "PATH=/none:" + dir}
	if got, err := lookPath("program", env); err != nil || got != program {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := lookPath("data", env); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is no program: %v", err)
	}
	if diff := cmp.Diff([]string{"PATH=/none:" + dir, "A=2", "B="}, dedupe([]string{env[0], "A=1", env[1], "A=2", "B="})); diff != "" {
		t.Error(diff)
	}
}
