// Package examples_test applies the examples as a user would: with the CLI,
// the built provider and nothing in between.
package examples_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// workspace is a copy of examples/ with a provider of its own to run it by.
type workspace struct {
	t        *testing.T
	cli      string
	scenario string // folder
	env      []string
	dataDir  string
}

// newWorkspace builds the provider and prepares a folder of examples/ to be
// applied.
func newWorkspace(t *testing.T, folder string) *workspace {
	t.Helper()
	if os.Getenv("TF_ACC") == "" {
		t.Skip("TF_ACC is not set; make test sets it")
	}
	if os.Geteuid() != 0 {
		t.Skip("local hosts need root")
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		t.Skip("local hosts need /dev/net/tun: " + err.Error())
	}
	dir := t.TempDir()
	w := &workspace{t: t, cli: os.Getenv("TF_ACC_TERRAFORM_PATH"), dataDir: filepath.Join(dir, "data")}
	if w.cli == "" {
		t.Fatal("TF_ACC_TERRAFORM_PATH is not set; make test sets it to the CLI it uses")
	}
	if err := os.CopyFS(filepath.Join(dir, "examples"), os.DirFS(".")); err != nil {
		t.Fatal(err)
	}
	w.scenario = filepath.Join(dir, "examples", folder)

	mirror := filepath.Join(dir, "mirror")
	for _, registry := range []string{"registry.terraform.io", "registry.opentofu.org"} {
		binary := filepath.Join(mirror, registry, "terraform-testbed/testbed/0.1.0", "linux_"+runtime.GOARCH, "terraform-provider-testbed_v0.1.0")
		build := exec.Command("go", "build", "-trimpath", "-o", binary, "..")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build the provider: %v\n%s", err, out)
		}
	}
	config := filepath.Join(dir, "cli.tfrc")
	if err := os.WriteFile(config, []byte("provider_installation {\n  filesystem_mirror {\n    path = \""+mirror+"\"\n  }\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	list := func(name string) string {
		paths, err := json.Marshal(strings.Split(needEnv(t, name), ","))
		if err != nil {
			t.Fatal(err)
		}
		return string(paths)
	}
	w.env = append(os.Environ(),
		"TF_CLI_CONFIG_FILE="+config, "TF_IN_AUTOMATION=1", "CHECKPOINT_DISABLE=1", "TF_LOG=", "TF_CLI_ARGS=-no-color",
		"TF_VAR_data_dir="+w.dataDir,
		"TF_VAR_k3s_binary="+needEnv(t, "TESTBED_K3S_BINARY"),
		"TF_VAR_k3s_images="+list("TESTBED_K3S_AIRGAP_IMAGES"),
		"TF_VAR_clusterlink_images="+list("TESTBED_CLUSTERLINK_IMAGES"),
		"TF_VAR_gateway_images="+list("TESTBED_GATEWAY_IMAGES"),
		"TF_VAR_gateway_image=localhost/haproxy:debian",
		"TF_VAR_dataplane=go",
		"TF_VAR_knative_manifests="+list("TESTBED_KNATIVE_MANIFEST"),
		"TF_VAR_knative_images="+list("TESTBED_KNATIVE_IMAGES"),
	)
	w.run("init", "-input=false")
	return w
}

func needEnv(t *testing.T, name string) string {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		t.Fatalf("%s is not set; make test sets it after building the lab", name)
	}
	return value
}

func (w *workspace) command(args ...string) *exec.Cmd {
	command := exec.Command(w.cli, append([]string{"-chdir=" + w.scenario}, args...)...)
	command.Env = w.env
	return command
}

// run runs the CLI to its end and returns what it printed.
func (w *workspace) run(args ...string) []byte {
	w.t.Helper()
	began := time.Now()
	var out, errs bytes.Buffer
	command := w.command(args...)
	command.Stdout, command.Stderr = &out, &errs
	if err := command.Run(); err != nil {
		// The errors first: a plan before them is long.
		w.t.Fatalf("%s: %v\n%s\n%s", strings.Join(args, " "), err, errs.Bytes(), out.Bytes())
	}
	w.t.Logf("%s took %.1f s", strings.Join(args, " "), time.Since(began).Seconds())
	return out.Bytes()
}

// destroy ends the testbed. The results outlive it, which is their purpose, and
// are all that does.
func (w *workspace) destroy() {
	w.t.Helper()
	w.run("destroy", "-input=false", "-auto-approve")
	if err := os.RemoveAll(filepath.Join(w.dataDir, "results")); err != nil {
		w.t.Fatal(err)
	}
	// Nothing else keeps the folder.
	if err := os.Remove(w.dataDir); err != nil {
		w.t.Error(err)
	}
}

// destroyAtEnd destroys whatever a failed test left.
func (w *workspace) destroyAtEnd() {
	w.t.Cleanup(func() {
		if out, err := w.command("destroy", "-input=false", "-auto-approve").CombinedOutput(); err != nil {
			w.t.Errorf("destroy at the end: %v\n%s", err, out)
		}
	})
}

// killProvider kills the provider where it stands; the CLI gives up.
func killProvider(t *testing.T, cli *os.Process) {
	for _, pid := range childrenOf(t, cli.Pid) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// interrupt is what Ctrl-C does.
func interrupt(t *testing.T, cli *os.Process) {
	if err := cli.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
}

// patience is how long a stopped CLI may take to end, on a busy machine.
const patience = 15 * time.Second

// applyAnd applies what a resource needs and the resource, and does something
// to the CLI some time after the resource's creation began, which may be after
// its end. Then the CLI has to give up soon.
func (w *workspace) applyAnd(act func(*testing.T, *os.Process), resource string, after time.Duration) {
	w.t.Helper()
	line := resource + ": Creating..."
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	command := w.command("apply", "-input=false", "-auto-approve", "-no-color", "-target="+resource)
	reader, writer, err := os.Pipe()
	if err != nil {
		w.t.Fatal(err)
	}
	command.Stdout, command.Stderr = writer, writer
	if err := command.Start(); err != nil {
		w.t.Fatal(err)
	}
	_ = writer.Close()
	stop := context.AfterFunc(ctx, func() { _ = command.Process.Signal(syscall.SIGTERM) })
	defer stop()

	var acted time.Time
	var seen bytes.Buffer
	scanner := bufio.NewScanner(io.TeeReader(reader, &seen))
	for scanner.Scan() {
		if acted.IsZero() && strings.Contains(scanner.Text(), line) {
			time.Sleep(after) // it is somewhere in the middle of the work, which is the point
			acted = time.Now()
			act(w.t, command.Process)
		}
	}
	err = command.Wait()
	switch took := time.Since(acted); {
	case acted.IsZero():
		w.t.Fatalf("the apply did not come to %q: %v\n%s", line, err, seen.Bytes())
	case took > patience:
		w.t.Errorf("stopped at %q, the CLI took %s to end:\n%s", line, took, seen.Bytes())
	case err == nil:
		w.t.Logf("all was done before it was stopped at %q", line)
	default:
		w.t.Logf("stopped at %q, the CLI ended after %.1f s", line, took.Seconds())
	}
}

// keepsSecrets looks in files for the private keys and tokens of the testbed,
// which only the hosts and the folder of keys hold.
func (w *workspace) keepsSecrets(files ...string) {
	w.t.Helper()
	secrets := map[string]string{"PRIVATE KEY": "PEM", "client-key-data": "kubeconfig"}
	for _, pattern := range []string{
		"keys/nebula/*.key", "keys/clusterlink/*/key.pem",
		"hosts/*/layer*/upper/etc/nebula/host.key",
		"hosts/*/layer*/upper/etc/rancher/k3s/token",
		"hosts/*/lib/rancher/k3s/server/token", "hosts/*/lib/rancher/k3s/server/tls/*.key",
	} {
		paths, err := filepath.Glob(filepath.Join(w.dataDir, pattern))
		if err != nil || len(paths) == 0 {
			w.t.Errorf("%s names no secret: %v", pattern, err)
		}
		for _, path := range paths {
			content, err := os.ReadFile(path)
			if err != nil {
				w.t.Fatal(err)
			}
			// In PEM the second line is the first of the key itself.
			lines := strings.Split(strings.TrimSpace(string(content)), "\n")
			secrets[lines[min(1, len(lines)-1)]] = path
		}
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			w.t.Fatal(err)
		}
		for secret, origin := range secrets {
			if bytes.Contains(content, []byte(secret)) {
				w.t.Errorf("%s has a secret: %s", filepath.Base(file), origin)
			}
		}
	}
}

// childrenOf returns the processes whose parent is pid.
func childrenOf(t *testing.T, pid int) []int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	var children []int
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended since
		}
		// pid (name) state ppid; the name may hold anything.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if parent, _ := strconv.Atoi(fields[1]); parent == pid {
			child, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			if err != nil {
				t.Fatal(err)
			}
			children = append(children, child)
		}
	}
	return children
}
