package k3s

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/artifact"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
)

// Apply makes the cluster's server run on the host as specified, and returns
// when it works. It tells progress what it waits for. An input that cannot work
// is an *InputError, and nothing was touched.
func Apply(ctx context.Context, h host.Host, spec Spec, progress func(message string)) error {
	n, err := spec.node()
	if err != nil {
		return err
	}
	placed, err := n.place(ctx, h, func(ctx context.Context) error { return makeToken(ctx, h) }, progress)
	if err != nil {
		return err
	}
	if err := placed.start(ctx); err != nil {
		return err
	}
	return awaitServer(ctx, h, spec, progress)
}

// install puts the files in place and reports whether any of them changed.
func (n node) install(ctx context.Context, h host.Host, token func(context.Context) error, progress func(string)) (changed bool, err error) {
	binary, err := installBinary(ctx, h, n.binary, progress)
	if err != nil {
		return false, fmt.Errorf("install k3s on %s: %w", h.URL(), err)
	}
	images, err := installImages(ctx, h, n.airgapImages, progress)
	if err != nil {
		return false, fmt.Errorf("install the image archives of k3s on %s: %w", h.URL(), err)
	}
	if err := token(ctx); err != nil {
		return false, fmt.Errorf("give k3s on %s its token: %w", h.URL(), err)
	}
	registries, err := installText(ctx, h, registriesPath, n.registries)
	if err != nil {
		return false, err
	}
	config, err := installText(ctx, h, configPath, n.config)
	return binary || images || registries || config, err
}

// installText makes a file have a content, or be absent when that is empty.
func installText(ctx context.Context, h host.Host, path, content string) (changed bool, err error) {
	current, err := h.Read(ctx, path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("read %s on %s: %w", path, h.URL(), err)
	}
	switch {
	case err == nil && content == "":
		err = h.Remove(ctx, path)
	case string(current) == content:
		return false, nil
	default:
		err = h.Write(ctx, path, 0o600, strings.NewReader(content))
	}
	if err != nil {
		return false, fmt.Errorf("write %s on %s: %w", path, h.URL(), err)
	}
	return true, nil
}

func installBinary(ctx context.Context, h host.Host, binary artifact.File, progress func(string)) (changed bool, err error) {
	current, err := digest(ctx, h, binaryPath)
	if err != nil || current == binary.SHA256 {
		return false, err
	}
	progress("copying " + binary.Name)
	const fresh = binaryPath + ".new"
	if err := upload(ctx, h, binary.Path, fresh, 0o755); err != nil {
		return false, err
	}
	if _, err := version(ctx, h, fresh); err != nil {
		err = &InputError{"binary", fmt.Errorf("%s is not a k3s program for this host: %w", binary.Path, err)}
		return false, errors.Join(err, h.Remove(ctx, fresh))
	}
	_, err = h.Run(ctx, host.Command{Argv: []string{"mv", "--force", fresh, binaryPath}})
	return true, err
}

// version asks a program for the version of k3s that it is.
func version(ctx context.Context, h host.Host, program string) (string, error) {
	output, err := h.Run(ctx, host.Command{Argv: []string{program, "--version"}})
	if err != nil {
		return "", err
	}
	fields := strings.Fields(string(output.Stdout))
	if len(fields) < 3 || fields[0] != "k3s" || fields[1] != "version" {
		first, _, _ := strings.Cut(string(output.Stdout), "\n")
		return "", fmt.Errorf("\"k3s --version\" printed %.80q instead of \"k3s version ...\"", first)
	}
	return fields[2], nil
}

func upload(ctx context.Context, h host.Host, from, to string, mode fs.FileMode) error {
	file, err := os.Open(from)
	if err != nil {
		return err
	}
	defer file.Close()
	return h.Write(ctx, to, mode, file)
}

// digest returns the SHA-256 of a file on the host, and "" when there is none.
func digest(ctx context.Context, h host.Host, path string) (string, error) {
	output, err := h.Run(ctx, host.Command{Argv: []string{"sha256sum", path}})
	var exit *host.ExitError
	if errors.As(err, &exit) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	sum, _, _ := strings.Cut(string(output.Stdout), " ")
	return sum, nil
}

// managedImage is the name of an archive that Apply put on the host: its
// digest and its own name. Others there are left alone.
var managedImage = regexp.MustCompile(`^[0-9a-f]{64}-`)

func imageName(image artifact.File) string { return image.SHA256 + "-" + image.Name }

func installImages(ctx context.Context, h host.Host, images []artifact.File, progress func(string)) (changed bool, err error) {
	present, err := listImages(ctx, h)
	if err != nil {
		return false, err
	}
	wanted := map[string]bool{}
	for _, image := range images {
		name := imageName(image)
		wanted[name] = true
		if slices.Contains(present, name) {
			continue
		}
		progress("copying " + image.Name)
		if err := upload(ctx, h, image.Path, path.Join(imagesDir, name), 0o644); err != nil {
			return false, err
		}
		changed = true
	}
	for _, name := range present {
		if wanted[name] {
			continue
		}
		if err := h.Remove(ctx, path.Join(imagesDir, name)); err != nil {
			return false, err
		}
		changed = true
	}
	return changed, nil
}

// listImages returns the names of the archives that Apply put on the host.
func listImages(ctx context.Context, h host.Host) ([]string, error) {
	output, err := h.Run(ctx, host.Command{Argv: []string{"ls", "-1", imagesDir}})
	var exit *host.ExitError
	if errors.As(err, &exit) {
		return nil, nil // there is no such folder
	}
	if err != nil {
		return nil, err
	}
	names := strings.Fields(string(output.Stdout))
	return slices.DeleteFunc(names, func(name string) bool { return !managedImage.MatchString(name) }), nil
}

// makeToken gives the cluster the secret that its nodes join with. It stays on
// the host.
func makeToken(ctx context.Context, h host.Host) error {
	_, err := h.Read(ctx, tokenPath)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return h.Write(ctx, tokenPath, 0o600, strings.NewReader(rand.Text()+"\n"))
}
