package ssh

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// keys are where the keys for logging in come from.
type keys struct {
	private    string // a key itself
	passphrase string
	files      []string
	usual      bool   // files are only the usual ones, which need not exist
	agent      string // socket
	only       bool   // of the agent's keys only those that belong to files
}

// ring is the keys for one login.
type ring struct {
	signers []ssh.Signer
	tried   []string // what each signer is, for people
	hints   []string // why others are not tried
	agent   net.Conn
}

func (r *ring) close() {
	if r.agent != nil {
		r.agent.Close()
	}
}

func (r *ring) add(signer ssh.Signer, from string) {
	for _, other := range r.signers {
		if bytes.Equal(other.PublicKey().Marshal(), signer.PublicKey().Marshal()) {
			return
		}
	}
	r.signers = append(r.signers, signer)
	r.tried = append(r.tried, fmt.Sprintf("%s of %s", ssh.FingerprintSHA256(signer.PublicKey()), from))
}

// open gets the keys. The ring is to be closed after the login.
func (k keys) open() (*ring, error) {
	r := &ring{}
	if k.private != "" {
		signer, err := k.parse([]byte(k.private))
		if err != nil {
			return nil, fmt.Errorf("read private_key: %w", explain(err, "private_key"))
		}
		r.add(signer, "private_key")
	}
	held := k.askAgent(r)
	for _, file := range k.files {
		if err := k.addFile(r, file, held); err != nil {
			r.close()
			return nil, err
		}
	}
	if !k.only {
		for _, signer := range held {
			r.add(signer, "the SSH agent")
		}
	}
	return r, nil
}

// askAgent returns the keys that the SSH agent holds.
func (k keys) askAgent(r *ring) []ssh.Signer {
	if k.agent == "" {
		return nil
	}
	conn, err := net.Dial("unix", k.agent)
	if err != nil {
		r.hints = append(r.hints, fmt.Sprintf("the SSH agent at %s does not answer", k.agent))
		return nil
	}
	r.agent = conn
	held, err := agent.NewClient(conn).Signers()
	if err != nil {
		r.hints = append(r.hints, fmt.Sprintf("the SSH agent at %s tells no keys: %v", k.agent, err))
	}
	return held
}

// addFile adds the key of a file. One with a passphrase that is not known is
// left to the agent.
func (k keys) addFile(r *ring, file string, held []ssh.Signer) error {
	content, err := os.ReadFile(file)
	if err != nil {
		if k.usual && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("read identity file: %w", err)
	}
	signer, err := k.parse(content)
	if err == nil {
		r.add(signer, file)
		return nil
	}
	// The file may also be the public half of a key that the agent holds.
	public := publicHalf(file, content, err)
	for _, signer := range held {
		if public != nil && bytes.Equal(signer.PublicKey().Marshal(), public.Marshal()) {
			r.add(signer, "the SSH agent, for "+file)
			return nil
		}
	}
	err = fmt.Errorf("read identity file %s: %w", file, explain(err, file))
	if k.usual {
		r.hints = append(r.hints, err.Error())
		return nil
	}
	return err
}

func (k keys) parse(content []byte) (ssh.Signer, error) {
	signer, err := ssh.ParsePrivateKey(content)
	var locked *ssh.PassphraseMissingError
	if errors.As(err, &locked) && k.passphrase != "" {
		return ssh.ParsePrivateKeyWithPassphrase(content, []byte(k.passphrase))
	}
	return signer, err
}

// publicHalf finds the public key that belongs to a file whose private key
// cannot be read.
func publicHalf(file string, content []byte, err error) ssh.PublicKey {
	var locked *ssh.PassphraseMissingError
	if errors.As(err, &locked) && locked.PublicKey != nil {
		return locked.PublicKey
	}
	if public, _, _, _, err := ssh.ParseAuthorizedKey(content); err == nil {
		return public
	}
	if content, err = os.ReadFile(file + ".pub"); err != nil {
		return nil
	}
	public, _, _, _, err := ssh.ParseAuthorizedKey(content)
	if err != nil {
		return nil
	}
	return public
}

// explain says what to do about a key that cannot be used.
func explain(err error, name string) error {
	var locked *ssh.PassphraseMissingError
	if errors.As(err, &locked) {
		return fmt.Errorf("it has a passphrase: set passphrase in the provider's ssh settings, or give the key to the SSH agent (ssh-add %s)", name)
	}
	return err
}

// describe lists the keys for the error of a refused login.
func (r *ring) describe() string {
	text := "there is no key to log in with"
	if len(r.tried) > 0 {
		text = "it accepts none of these keys: " + strings.Join(r.tried, ", ")
	}
	if len(r.hints) > 0 {
		text += " (" + strings.Join(r.hints, "; ") + ")"
	}
	return text
}
