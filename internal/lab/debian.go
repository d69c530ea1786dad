package main

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// debianPackage is a package with those of its dependencies that this machine
// has not installed, unpacked in a folder. Nothing is installed, so no daemon
// of the package is started.
type debianPackage struct {
	root    string   // folder with the packages' files
	sources []string // file names of the packages, which have their versions
}

// unpackDebian downloads and unpacks a package into a folder.
func unpackDebian(ctx context.Context, name, dir string) (debianPackage, error) {
	p := debianPackage{root: filepath.Join(dir, "root")}
	if err := os.MkdirAll(p.root, 0o755); err != nil {
		return p, err
	}
	names, err := missingPackages(ctx, name)
	if err == nil {
		err = download(ctx, dir, names)
	}
	if err != nil && os.Geteuid() == 0 {
		// The lists of packages are missing or older than the mirror.
		if _, err := command(ctx, dir, "apt-get", "update"); err != nil {
			return p, err
		}
		if names, err = missingPackages(ctx, name); err == nil {
			err = download(ctx, dir, names)
		}
	}
	if err != nil {
		return p, fmt.Errorf("%w; the package comes from Debian's mirrors, which need a recent \"apt-get update\"", err)
	}
	archives, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil {
		return p, err
	}
	for _, archive := range archives {
		if _, err := command(ctx, dir, "dpkg-deb", "--extract", archive, p.root); err != nil {
			return p, err
		}
		p.sources = append(p.sources, filepath.Base(archive))
	}
	return p, nil
}

// missingPackages returns a package and those of its dependencies that are not
// installed.
func missingPackages(ctx context.Context, name string) ([]string, error) {
	plan, err := command(ctx, "", "apt-get", "install", "--simulate", "--no-install-recommends", name)
	if err != nil {
		return nil, err
	}
	names := []string{name}
	for line := range strings.Lines(plan) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "Inst" && fields[1] != name {
			names = append(names, fields[1])
		}
	}
	return names, nil
}

func download(ctx context.Context, dir string, names []string) error {
	_, err := command(ctx, dir, "apt-get", append([]string{"download"}, names...)...)
	return err
}

// command runs a program and returns what it wrote.
func command(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, bytes.TrimSpace(errs.Bytes()))
	}
	return string(out), nil
}

// files returns what a program of the package needs to run, the program first:
// its loader and all its libraries, from the package or else from this machine,
// whose release it is of. The last one is a manifest that says where each comes
// from.
func (p debianPackage) files(program string) ([]imageFile, error) {
	files := []imageFile{{path: program, source: filepath.Join(p.root, program), mode: 0o755}}
	seen := map[string]bool{}
	for i := 0; i < len(files); i++ {
		needed, err := needs(files[i].source)
		if err != nil {
			return nil, err
		}
		for _, name := range needed {
			if seen[name] {
				continue
			}
			seen[name] = true
			file, err := p.find(name)
			if err != nil {
				return nil, err
			}
			files = append(files, file)
		}
	}
	return append(files, imageFile{path: "usr/share/testbed/manifest.txt", mode: 0o644, content: []byte(p.manifest(files))}), nil
}

// needs returns the libraries of a program or library, and its loader.
func needs(path string) ([]string, error) {
	file, err := elf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	defer file.Close()
	names, err := file.ImportedLibraries()
	if err != nil {
		return nil, fmt.Errorf("read the libraries of %s: %w", path, err)
	}
	if section := file.Section(".interp"); section != nil {
		loader, err := section.Data()
		if err != nil {
			return nil, fmt.Errorf("read the loader of %s: %w", path, err)
		}
		names = append(names, string(bytes.TrimRight(loader, "\x00")))
	}
	return names, nil
}

// find returns the file of a library, or of a loader by its whole path.
func (p debianPackage) find(name string) (imageFile, error) {
	if filepath.IsAbs(name) {
		return imageFile{path: name[1:], source: name, mode: 0o755}, nil
	}
	for _, root := range []string{p.root, "/"} {
		for _, pattern := range []string{"usr/lib/*-linux-gnu*/", "lib/*-linux-gnu*/"} {
			found, err := filepath.Glob(filepath.Join(root, pattern, name))
			if err != nil {
				return imageFile{}, err
			}
			for _, source := range found {
				path, err := filepath.Rel(root, source)
				if err != nil {
					return imageFile{}, err
				}
				if _, err := os.Stat(source); errors.Is(err, fs.ErrNotExist) {
					continue // a link whose target another package has
				}
				return imageFile{path: path, source: source, mode: 0o644}, nil
			}
		}
	}
	return imageFile{}, fmt.Errorf("find library %s: neither the package nor this machine has it", name)
}

// manifest lists the packages and, for each file, its checksum, its path and
// where it comes from.
func (p debianPackage) manifest(files []imageFile) string {
	var text strings.Builder
	for _, source := range slices.Sorted(slices.Values(p.sources)) {
		fmt.Fprintf(&text, "package %s\n", source)
	}
	for _, file := range files {
		origin := "package"
		if !strings.HasPrefix(file.source, p.root) {
			origin = "machine"
		}
		sum, err := hashFile(file.source)
		if err != nil {
			sum = err.Error()
		}
		fmt.Fprintf(&text, "%s  /%s  %s\n", sum, file.path, origin)
	}
	return text.String()
}
