package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long a test waits for what takes seconds.
const patience = 90 * time.Second

// node is a machine in namespaces of its own.
type node struct {
	lab   string // folder with what the builder made
	files string // folder that is /lab inside
	pid   int    // of its PID 1
}

// startNode makes a node that ends with the test and leaves nothing. It fails,
// rather than skips, when the lab was not built.
func startNode(t *testing.T) *node {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("namespaces need root")
	}
	lab := os.Getenv("LAB_DIR")
	if lab == "" {
		lab = "../../.cache/lab"
	}
	lab, err := filepath.Abs(lab)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(lab, products()[0].name)
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("the lab is not built (go run -C internal/lab . -out DIR, and LAB_DIR=DIR): %v", err)
	}
	n := &node{lab: lab, files: t.TempDir()}
	if err := os.Link(program, filepath.Join(n.files, "k3s")); err != nil {
		copyFile(t, program, filepath.Join(n.files, "k3s"))
	}
	build := exec.Command("go", "build", "-o", filepath.Join(n.files, "web"), "./testdata/web")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the workload: %v\n%s", err, out)
	}

	name := fmt.Sprintf("lab-test-%d", os.Getpid())
	cmd := exec.Command("testdata/node.sh", name, t.TempDir(), nodeAddress, n.files)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the node ended with %v", err)
		}
		removeCgroups(t, name)
	})
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		t.Fatalf("start the node: %q: %v", line, err)
	}
	n.pid = childOf(t, cmd.Process.Pid)
	return n
}

// childOf returns the only child of a process.
func childOf(t *testing.T, pid int) int {
	t.Helper()
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(string(children)))
	if err != nil {
		t.Fatal(err)
	}
	return child
}

// removeCgroups removes the node's cgroups in every hierarchy, deepest first.
// The kernel frees them a moment after their last process.
func removeCgroups(t *testing.T, name string) {
	roots, err := filepath.Glob("/sys/fs/cgroup/*/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/sys/fs/cgroup/" + name); err == nil {
		roots = append(roots, "/sys/fs/cgroup/"+name)
	}
	for _, root := range roots {
		var folders []string
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				folders = append(folders, path)
			}
			return err
		})
		if err != nil {
			t.Errorf("list the cgroups below %s: %v", root, err)
		}
		slices.Reverse(folders)
		for _, folder := range folders {
			deadline := time.Now().Add(10 * time.Second)
			for err := syscall.Rmdir(folder); err != nil; err = syscall.Rmdir(folder) {
				if time.Now().After(deadline) {
					t.Errorf("the cgroup %s stays: %v", folder, err)
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
		}
	}
}

// command is a program inside the node.
func (n *node) command(argv ...string) *exec.Cmd {
	enter := []string{"--target", strconv.Itoa(n.pid), "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--root", "--wd=/", "--"}
	return exec.Command("nsenter", append(enter, argv...)...)
}

// run returns what a program in the node writes, and wants it to succeed.
func (n *node) run(t *testing.T, argv ...string) string {
	t.Helper()
	var stderr bytes.Buffer
	cmd := n.command(argv...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v: %s%s", argv, err, out, stderr.String())
	}
	return strings.TrimSpace(string(out))
}

// eventually asks again until a program's output is as wanted.
func (n *node) eventually(t *testing.T, want string, argv ...string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		out, err := n.command(argv...).CombinedOutput()
		if err == nil && strings.TrimSpace(string(out)) == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v: got %q (%v), want %q", argv, out, err, want)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// copy replaces a file in the node at once.
func (n *node) copy(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	n.write(t, to, string(content))
}

func (n *node) write(t *testing.T, path, content string) {
	t.Helper()
	cmd := n.command("/bin/sh", "-c", `mkdir -p "$(dirname "$0")" && cat > "$0.new" && mv "$0.new" "$0"`, path)
	cmd.Stdin = strings.NewReader(content)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("write %s: %v: %s", path, err, out)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	source, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(target, source); err != nil {
		t.Fatal(err)
	}
	if err := target.Close(); err != nil {
		t.Fatal(err)
	}
}

// runningServer is "k3s server" in a node.
type runningServer struct {
	cmd *exec.Cmd
	log *logBuffer
}

// startServer starts the server; when the test fails, its log is shown.
func (n *node) startServer(t *testing.T) *runningServer {
	t.Helper()
	s := &runningServer{cmd: n.command("/lab/k3s", "server"), log: &logBuffer{}}
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the server's log:\n%s", s.log.String())
		}
	})
	return s
}

// stop ends the server as a service manager does: its main process alone.
func (s *runningServer) stop(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(childOf(t, s.cmd.Process.Pid), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("the server ended with %v, want no error", err)
	}
}

type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// report logs the memory and processor time of each process of the node.
func (n *node) report(t *testing.T) {
	t.Helper()
	out := n.run(t, "ps", "-eo", "rss=,cputimes=,args=", "--sort=-rss")
	total := 0
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		kb, err := strconv.Atoi(fields[0])
		if err != nil || kb < 5000 {
			continue
		}
		total += kb
		name := filepath.Base(fields[2])
		if len(fields) > 3 && name == "k3s" {
			name = fields[3]
		}
		t.Logf("%-28s %4d MB  %3s s of processor", name, kb>>10, fields[1])
	}
	t.Logf("%-28s %4d MB (pages that processes share are counted for each)", "together", total>>10)
}

func since(began time.Time) time.Duration { return time.Since(began).Round(10 * time.Millisecond) }
