package k3s

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/artifact"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
)

// identityKey is an environment variable of the service that holds what of a
// cluster cannot change. It tells the cluster of this Spec, perhaps half made,
// from another one on the same host.
const identityKey = "TESTBED_K3S_CLUSTER"

// revisionKey holds a digest of all that the service reads at its start, so
// that a start that was due and did not happen is made up for.
const revisionKey = "TESTBED_K3S_REVISION"

// Apply makes the cluster run on the host as specified, and returns when it
// works. It tells progress what it waits for. An input that cannot work is an
// *InputError, and nothing was touched.
func Apply(ctx context.Context, h host.Host, spec Spec, progress func(message string)) error {
	config, err := spec.ConfigYAML()
	if err != nil {
		return err
	}
	service := host.Service{
		Name:     serviceName,
		Argv:     []string{binaryPath, "server"},
		Env:      []string{identityKey + "=" + spec.identity(), revisionKey + "=" + spec.revision(config)},
		After:    []string{"nebula"},
		KillMode: "process",
	}
	before, err := h.Service(ctx, serviceName)
	existed := err == nil
	if err != nil && !errors.Is(err, host.ErrNotExist) {
		return fmt.Errorf("look for k3s on %s: %w", h.URL(), err)
	}
	if existed && !slices.Contains(before.Service.Env, service.Env[0]) {
		return &InputError{"name", fmt.Errorf("%s already runs another k3s (%s); a host has one", h.URL(), describe(before.Service))}
	}
	if err := checkAddress(ctx, h, spec); err != nil {
		return err
	}
	changed, err := install(ctx, h, spec, config, progress)
	if err != nil {
		return err
	}
	if err := h.StartService(ctx, service); err != nil {
		return fmt.Errorf("start k3s on %s: %w", h.URL(), err)
	}
	// An equal service was left alone, but what it reads was not as it is now.
	if changed && existed && reflect.DeepEqual(before.Service, service) {
		if err := h.RestartService(ctx, serviceName); err != nil {
			return fmt.Errorf("restart k3s on %s: %w", h.URL(), err)
		}
	}
	return await(ctx, h, spec, progress)
}

func (s Spec) identity() string {
	return fmt.Sprintf("%s,%s,%s", s.Name, s.ClusterCIDR, s.ServiceCIDR)
}

func (s Spec) revision(config string) string {
	hash := sha256.New()
	fmt.Fprintln(hash, config, s.Binary.SHA256)
	for _, image := range s.AirgapImages {
		fmt.Fprintln(hash, image.SHA256)
	}
	return hex.EncodeToString(hash.Sum(nil))
}

func describe(service host.Service) string {
	for _, entry := range service.Env {
		if identity, ok := strings.CutPrefix(entry, identityKey+"="); ok {
			parts := strings.Split(identity, ",")
			return fmt.Sprintf("node %s, pods %s, services %s", parts[0], parts[1], parts[2])
		}
	}
	return "not made by this provider"
}

// checkAddress finds out early what k3s would fail on late, or never.
func checkAddress(ctx context.Context, h host.Host, spec Spec) error {
	output, err := h.Run(ctx, host.Command{Argv: []string{"ip", "-json", "address"}})
	if err != nil {
		return fmt.Errorf("list the addresses of %s: %w", h.URL(), err)
	}
	var links []struct {
		Name      string `json:"ifname"`
		Addresses []struct {
			Local netip.Addr `json:"local"`
		} `json:"addr_info"`
	}
	if err := json.Unmarshal(output.Stdout, &links); err != nil {
		return fmt.Errorf("list the addresses of %s: %w", h.URL(), err)
	}
	var all []string
	found := false
	names := map[string]bool{}
	for _, link := range links {
		names[link.Name] = true
		for _, address := range link.Addresses {
			found = found || address.Local == spec.NodeIP
			all = append(all, fmt.Sprintf("%s on %s", address.Local, link.Name))
		}
	}
	if !found {
		return &InputError{"node_ip", fmt.Errorf("%s has no address %s; it has %s", h.URL(), spec.NodeIP, strings.Join(all, ", "))}
	}
	if spec.Interface != "" && !names[spec.Interface] {
		return &InputError{"interface", fmt.Errorf("%s has no interface %q; it has %s", h.URL(), spec.Interface, strings.Join(all, ", "))}
	}
	return nil
}

// install puts the files in place and reports whether any of them changed.
func install(ctx context.Context, h host.Host, spec Spec, config string, progress func(string)) (changed bool, err error) {
	binary, err := installBinary(ctx, h, spec.Binary, progress)
	if err != nil {
		return false, fmt.Errorf("install k3s on %s: %w", h.URL(), err)
	}
	images, err := installImages(ctx, h, spec.AirgapImages, progress)
	if err != nil {
		return false, fmt.Errorf("install the image archives of k3s on %s: %w", h.URL(), err)
	}
	if err := makeToken(ctx, h); err != nil {
		return false, fmt.Errorf("make the token of k3s on %s: %w", h.URL(), err)
	}
	current, err := h.Read(ctx, configPath)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("read the configuration of k3s on %s: %w", h.URL(), err)
	}
	if string(current) == config {
		return binary || images, nil
	}
	if err := h.Write(ctx, configPath, 0o600, strings.NewReader(config)); err != nil {
		return false, fmt.Errorf("write the configuration of k3s on %s: %w", h.URL(), err)
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
