package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// builder makes products in a folder. A product's stamp lies beside it: the
// hash of what it was made from and its own, so that neither a changed source
// nor a damaged file goes unseen.
type builder struct {
	out    string
	temp   string
	goTool string // version
	lock   *os.File
	sums   map[string]string
}

type stamp struct {
	Inputs string `json:"inputs"` // SHA-256
	Output string `json:"output"` // SHA-256
}

// newBuilder waits until no other builder works in the folder.
func newBuilder(ctx context.Context, out string) (*builder, error) {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return nil, fmt.Errorf("make the output folder: %w", err)
	}
	version, err := exec.CommandContext(ctx, "go", "env", "GOVERSION").Output()
	if err != nil {
		return nil, fmt.Errorf("ask go for its version: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(out, ".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock the output folder: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", out, err), lock.Close())
	}
	// A builder that was killed may have left its half-made files.
	temp := filepath.Join(out, ".build")
	if err := errors.Join(os.RemoveAll(temp), os.Mkdir(temp, 0o755)); err != nil {
		return nil, errors.Join(fmt.Errorf("make a folder to build in: %w", err), lock.Close())
	}
	return &builder{out: out, temp: temp, goTool: strings.TrimSpace(string(version)), lock: lock, sums: map[string]string{}}, nil
}

func (b *builder) close() {
	os.RemoveAll(b.temp)
	b.lock.Close()
}

// make makes a product unless it is there and as its inputs want it.
func (b *builder) make(ctx context.Context, p product) error {
	path := filepath.Join(b.out, p.name)
	stampPath := filepath.Join(b.out, "."+p.name+".stamp")
	inputs, err := b.hashInputs(p)
	if err != nil {
		return err
	}
	var made stamp
	if content, err := os.ReadFile(stampPath); err == nil && json.Unmarshal(content, &made) == nil && made.Inputs == inputs {
		if sum, err := hashFile(path); err == nil && sum == made.Output {
			b.sums[p.name] = sum
			fmt.Printf("%s is up to date\n", path)
			return nil
		}
	}

	fmt.Printf("building %s: %s when nothing is cached, seconds when all is\n", path, p.cold)
	began := time.Now()
	next := filepath.Join(b.temp, p.name)
	if err := p.build(ctx, b, next); err != nil {
		return err
	}
	sum, err := hashFile(next)
	if err != nil {
		return err
	}
	content, err := json.Marshal(stamp{Inputs: inputs, Output: sum})
	if err != nil {
		return err
	}
	if err := os.Rename(next, path); err != nil {
		return err
	}
	b.sums[p.name] = sum
	fmt.Printf("built %s in %s\n", path, time.Since(began).Round(100*time.Millisecond))
	return os.WriteFile(stampPath, content, 0o644)
}

// goBuild links a static program of a module.
func (b *builder) goBuild(ctx context.Context, module, out, pkg string, ldflags ...string) error {
	return b.link(ctx, module, out, pkg, []string{"build"}, ldflags)
}

// goTest links the tests of a package to a static program.
func (b *builder) goTest(ctx context.Context, module, out, pkg string) error {
	return b.link(ctx, module, out, pkg, []string{"test", "-c"}, nil)
}

func (b *builder) link(ctx context.Context, module, out, pkg string, command, ldflags []string) error {
	flags := strings.Join(append([]string{"-s", "-w", "-buildid="}, ldflags...), " ")
	cmd := exec.CommandContext(ctx, "go", append(command, "-trimpath", "-ldflags", flags, "-o", out, pkg)...)
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go %s %s: %w", command[0], pkg, err)
	}
	return nil
}

// writeSums writes the checksums as k3s's releases have them.
func (b *builder) writeSums(products []product) error {
	var text strings.Builder
	for _, p := range products {
		fmt.Fprintf(&text, "%s  %s\n", b.sums[p.name], p.name)
	}
	path := filepath.Join(b.out, "sha256sum-"+runtime.GOARCH+".txt")
	if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
		return fmt.Errorf("write the checksums: %w", err)
	}
	return nil
}

// hashInputs covers the sources, the builder itself, the Go version and the
// machine's architecture.
func (b *builder) hashInputs(p product) (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, p.name, b.goTool, runtime.GOARCH)
	for _, input := range slices.Concat(p.inputs, []string{"builder.go", "image.go", "products.go"}) {
		err := filepath.WalkDir(input, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || path != input && strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := hashFile(path)
			fmt.Fprintln(sum, path, file)
			return err
		})
		if err != nil {
			return "", fmt.Errorf("hash the sources: %w", err)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

func hashFile(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
