// Package artifact gets the files that hosts need from the machine the
// provider runs on: programs and image archives that lie here or are
// downloaded once, checked and kept.
//
// A location is an absolute path or an http(s) URL. What lies below a URL is
// taken never to change, as is true of releases; what lies below a path may.
// A file is returned only when its SHA-256 is the wanted one.
package artifact

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Source says where a file comes from and how it is checked.
type Source struct {
	// Location is an absolute path on this machine or an http(s) URL.
	Location string

	// SHA256 is the wanted digest in hex. When it is empty, Sums are asked.
	SHA256 string

	// Sums are locations of checksum files as sha256sum writes them. Those
	// that do not exist are passed over, but one must name the file.
	Sums []string
}

// Name returns the file's own name.
func (s Source) Name() string {
	if parsed, err := url.Parse(s.Location); err == nil && isURL(s.Location) {
		return path.Base(parsed.Path)
	}
	return filepath.Base(s.Location)
}

// File is a checked file on this machine.
type File struct {
	Path   string
	Name   string // as the source names it
	SHA256 string // hex
}

// ChecksumError reports a file with another content than was wanted.
type ChecksumError struct {
	Location, Want, Got string
}

func (e *ChecksumError) Error() string {
	return fmt.Sprintf("%s has the SHA-256 %s, not %s as wanted; correct the checksum, or get the file again", e.Location, e.Got, e.Want)
}

// Cache keeps downloads below a folder: each file in a folder named by its
// digest, and for each URL a note of the digest it had. It may be shared by
// several processes.
type Cache struct {
	dir string

	// Client downloads. It is http.DefaultClient unless somebody sets another.
	Client *http.Client

	// One fetch at a time, so that two clusters download their common files
	// once.
	fetching sync.Mutex

	mu     sync.Mutex
	hashed map[fingerprint]string
}

// fingerprint tells whether a file needs to be read again to know its digest.
type fingerprint struct {
	path     string
	size     int64
	modified time.Time
}

// NewCache returns a cache in a folder, which is made when it is needed.
func NewCache(dir string) *Cache {
	return &Cache{dir: dir, Client: http.DefaultClient, hashed: map[fingerprint]string{}}
}

func isURL(location string) bool {
	return strings.HasPrefix(location, "https://") || strings.HasPrefix(location, "http://")
}

// Fetch returns the file. It downloads what is not in the cache; a path is
// checked and used where it is.
func (c *Cache) Fetch(ctx context.Context, source Source) (File, error) {
	c.fetching.Lock()
	defer c.fetching.Unlock()
	if !isURL(source.Location) {
		return c.local(source)
	}
	if known, ok := c.Known(source); ok {
		return File{Path: c.file(source, known), Name: source.Name(), SHA256: known}, nil
	}
	return c.download(ctx, source)
}

func (c *Cache) local(source Source) (File, error) {
	if !filepath.IsAbs(source.Location) {
		return File{}, fmt.Errorf("%q is neither an absolute path nor an http(s) URL", source.Location)
	}
	digest, err := c.digest(source.Location)
	if err != nil {
		return File{}, err
	}
	if source.SHA256 != "" && !strings.EqualFold(digest, source.SHA256) {
		return File{}, &ChecksumError{source.Location, strings.ToLower(source.SHA256), digest}
	}
	return File{Path: source.Location, Name: source.Name(), SHA256: digest}, nil
}

// Known returns the digest of a file without asking the network: that of a
// path, or of a URL that is in the cache. It reports false for what has yet to
// be fetched or cannot be read.
func (c *Cache) Known(source Source) (sha256 string, ok bool) {
	if !isURL(source.Location) {
		if !filepath.IsAbs(source.Location) {
			return "", false
		}
		digest, err := c.digest(source.Location)
		return digest, err == nil
	}
	wanted := strings.ToLower(source.SHA256)
	if wanted == "" {
		noted, err := os.ReadFile(c.note(source.Location))
		if err != nil {
			return "", false
		}
		wanted = string(noted)
	}
	digest, err := c.digest(c.file(source, wanted))
	return digest, err == nil && digest == wanted
}

func (c *Cache) file(source Source, digest string) string {
	return filepath.Join(c.dir, digest, source.Name())
}

func (c *Cache) note(location string) string {
	sum := sha256.Sum256([]byte(location))
	return filepath.Join(c.dir, "urls", hex.EncodeToString(sum[:]))
}

// digest returns the SHA-256 of a file, and reads it only when it changed.
func (c *Cache) digest(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a file", path)
	}
	version := fingerprint{path, info.Size(), info.ModTime()}
	c.mu.Lock()
	known, ok := c.hashed[version]
	c.mu.Unlock()
	if ok {
		return known, nil
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	known = hex.EncodeToString(hash.Sum(nil))
	c.mu.Lock()
	c.hashed[version] = known
	c.mu.Unlock()
	return known, nil
}

func (c *Cache) download(ctx context.Context, source Source) (File, error) {
	wanted := strings.ToLower(source.SHA256)
	if wanted == "" && len(source.Sums) > 0 {
		sum, err := c.published(ctx, source)
		if err != nil {
			return File{}, err
		}
		wanted = sum
	}
	if err := os.MkdirAll(filepath.Join(c.dir, "urls"), 0o755); err != nil {
		return File{}, fmt.Errorf("download %s: %w", source.Location, err)
	}
	partial, err := os.CreateTemp(c.dir, "partial-*")
	if err != nil {
		return File{}, fmt.Errorf("download %s: %w", source.Location, err)
	}
	defer os.Remove(partial.Name())
	hash := sha256.New()
	err = c.get(ctx, source.Location, io.MultiWriter(partial, hash))
	if closed := partial.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return File{}, fmt.Errorf("download %s: %w", source.Location, err)
	}
	got := hex.EncodeToString(hash.Sum(nil))
	if wanted != "" && got != wanted {
		return File{}, &ChecksumError{source.Location, wanted, got}
	}
	file := File{Path: c.file(source, got), Name: source.Name(), SHA256: got}
	if err := c.keep(partial.Name(), file.Path, source.Location, got); err != nil {
		return File{}, fmt.Errorf("keep the download of %s: %w", source.Location, err)
	}
	return file, nil
}

// keep moves a finished download to its place and notes its URL.
func (c *Cache) keep(partial, final, location, digest string) error {
	if err := os.MkdirAll(filepath.Dir(final), 0o755); err != nil {
		return err
	}
	if err := os.Rename(partial, final); err != nil {
		return err
	}
	note := partial + ".url"
	if err := os.WriteFile(note, []byte(digest), 0o644); err != nil {
		return err
	}
	return os.Rename(note, c.note(location))
}

// published looks the digest of a file up in its checksum files.
func (c *Cache) published(ctx context.Context, source Source) (string, error) {
	for _, sums := range source.Sums {
		var content bytes.Buffer
		err := c.get(ctx, sums, &content)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("download the checksums %s: %w", sums, err)
		}
		if digest, ok := lookUp(content.Bytes(), source.Name()); ok {
			return digest, nil
		}
	}
	return "", fmt.Errorf("find the checksum of %s: none of %s names it; give its SHA-256", source.Name(), strings.Join(source.Sums, ", "))
}

// lookUp finds a name in lines of a digest, two spaces (or a space and a star)
// and a name.
func lookUp(sums []byte, name string) (digest string, ok bool) {
	lines := bufio.NewScanner(bytes.NewReader(sums))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) != 2 || path.Base(strings.TrimPrefix(fields[1], "*")) != name {
			continue
		}
		if raw, err := hex.DecodeString(fields[0]); err == nil && len(raw) == sha256.Size {
			return strings.ToLower(fields[0]), true
		}
	}
	return "", false
}

// get writes what a URL holds. One that does not exist is an fs.ErrNotExist.
func (c *Cache) get(ctx context.Context, location string, to io.Writer) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, location, nil)
	if err != nil {
		return err
	}
	response, err := c.Client.Do(request)
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		return fmt.Errorf("%w; without a network, download it elsewhere and give its absolute path instead", err)
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound, http.StatusGone:
		return fmt.Errorf("the server answers %s: %w", response.Status, fs.ErrNotExist)
	default:
		return fmt.Errorf("the server answers %s", response.Status)
	}
	written, err := io.Copy(to, response.Body)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("the connection ended after %d of %d bytes: %w", written, response.ContentLength, err)
	}
	return err
}
