package report

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench"
)

// Digest returns the SHA-256 of what the folders of runs hold, in hexadecimal.
// The error wraps fs.ErrNotExist when a folder or a file of it is missing.
func Digest(folders []string) (string, error) {
	sum := sha256.New()
	for _, dir := range folders {
		samples, err := bench.SamplesPath(dir)
		if err != nil {
			return "", fmt.Errorf("read the results in %s: %w", dir, err)
		}
		for _, path := range []string{filepath.Join(dir, bench.EnvironmentFile), samples} {
			file, err := os.Open(path)
			if err != nil {
				return "", fmt.Errorf("read the results in %s: %w", dir, err)
			}
			_, err = io.Copy(sum, file)
			_ = file.Close()
			if err != nil {
				return "", fmt.Errorf("read the results in %s: %w", dir, err)
			}
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Digests returns the SHA-256 of each file in hexadecimal.
func Digests(files map[string][]byte) map[string]string {
	digests := map[string]string{}
	for name, content := range files {
		sum := sha256.Sum256(content)
		digests[name] = hex.EncodeToString(sum[:])
	}
	return digests
}

// Intact tells whether all files are below dir as they were written.
func Intact(dir string, digests map[string]string) bool {
	for name, digest := range digests {
		content, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil || Digests(map[string][]byte{name: content})[name] != digest {
			return false
		}
	}
	return true
}

// Remove removes files below dir, and the folders that are empty without them.
// What is gone already is no error.
func Remove(dir string, names []string) error {
	folders := []string{"."}
	for _, name := range names {
		if err := os.Remove(filepath.Join(dir, filepath.FromSlash(name))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the report: %w", err)
		}
		if folder := path.Dir(name); !slices.Contains(folders, folder) {
			folders = append(folders, folder)
		}
	}
	slices.Reverse(folders)
	for _, folder := range folders {
		err := os.Remove(filepath.Join(dir, filepath.FromSlash(folder)))
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTEMPTY) {
			return fmt.Errorf("remove the report: %w", err)
		}
	}
	return nil
}
