package vmtest

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

//go:embed image.sh
var imageScript []byte

// Files of an image beside the keys.
const (
	diskFile   = "disk.img"
	kernelFile = "vmlinuz"
	initrdFile = "initrd"
)

// makeImage returns the folder of the image in the cache, and makes it if it
// is not there: the name says what it was made by, and it has its name only
// when it is whole.
func makeImage(ctx context.Context, cache string) (string, error) {
	sum := sha256.Sum256(imageScript)
	dir := filepath.Join(cache, "image-"+hex.EncodeToString(sum[:6]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", fmt.Errorf("make the image of the VM lab: %w", err)
	}
	fresh, err := os.MkdirTemp(cache, "new-")
	if err != nil {
		return "", fmt.Errorf("make the image of the VM lab: %w", err)
	}
	fmt.Fprintln(os.Stderr, "making the image of the VM lab (a minute or two, once)")
	script := exec.CommandContext(ctx, "bash", "-s", fresh)
	input, err := os.CreateTemp(fresh, "script-")
	if err == nil {
		defer input.Close()
		_, err = input.Write(imageScript)
	}
	if err == nil {
		_, err = input.Seek(0, 0)
	}
	if err == nil {
		script.Stdin, script.Stdout, script.Stderr = input, os.Stderr, os.Stderr
		err = script.Run()
	}
	if err == nil {
		err = errors.Join(os.Remove(input.Name()), os.Chmod(fresh, 0o755))
	}
	if err == nil {
		err = os.Rename(fresh, dir)
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("make the image of the VM lab: %w", err), os.RemoveAll(fresh))
	}
	return dir, nil
}
