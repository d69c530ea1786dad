package server

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// token is k3s's secret of a cluster: "K10<hash of the CA>::server:<password>".
type token struct{ caHash, password string }

func (t token) String() string { return "K10" + t.caHash + "::server:" + t.password }

// parseToken reads the full form, or the short one, which is the password.
func parseToken(text string) (token, error) {
	rest, full := strings.CutPrefix(text, "K10")
	if !full {
		return token{password: text}, nil
	}
	hash, credentials, ok := strings.Cut(rest, "::")
	if !ok {
		return token{}, errors.New("a token that begins with K10 has the form K10<hash>::server:<password>")
	}
	_, password, ok := strings.Cut(credentials, ":")
	if !ok || password == "" {
		return token{}, errors.New("the token has no password")
	}
	return token{caHash: hash, password: password}, nil
}

// prepareToken settles the cluster's token and writes it down. A cluster keeps
// the token that it was made with.
func prepareToken(dataDir, given, caHash string) (token, error) {
	path := filepath.Join(dataDir, "server/token")
	wanted, err := parseToken(given)
	if err != nil {
		return token{}, err
	}
	if wanted.caHash != "" && wanted.caHash != caHash {
		return token{}, fmt.Errorf("the token is for a CA with the hash %s, this server's has %s", wanted.caHash, caHash)
	}
	content, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return token{}, fmt.Errorf("read the token: %w", err)
	}
	kept, err := parseToken(strings.TrimSpace(string(content)))
	if err != nil {
		return token{}, fmt.Errorf("read %s: %w", path, err)
	}
	switch {
	case wanted.password == "" && kept.password == "":
		password := make([]byte, 16)
		if _, err := rand.Read(password); err != nil {
			return token{}, fmt.Errorf("make a token: %w", err)
		}
		wanted.password = hex.EncodeToString(password)
	case wanted.password == "":
		wanted.password = kept.password
	case kept.password != "" && kept.password != wanted.password:
		return token{}, fmt.Errorf("the token differs from the one in %s that the cluster was made with", path)
	}
	wanted.caHash = caHash
	for _, name := range []string{"token", "node-token"} {
		if err := writeFile(filepath.Join(dataDir, "server", name), []byte(wanted.String()+"\n"), 0o600); err != nil {
			return token{}, err
		}
	}
	return wanted, nil
}
