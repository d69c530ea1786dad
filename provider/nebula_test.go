package provider

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"

	"github.com/hashicorp/terraform-plugin-testing/compare"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
)

// compareDiffer compares a value that every step changes.
var compareDiffer = compare.ValuesDiffer()

// gone returns an error when there is something at the path.
func gone(path string) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is still there: %v", path, err)
	}
	return nil
}

// noPrivateKey searches the whole state for private keys.
func noPrivateKey(s *terraform.State) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if strings.Contains(string(text), "PRIVATE KEY") {
		return errors.New("a private key is in the state")
	}
	return nil
}

// wrapped matches the text however Terraform breaks its lines.
func wrapped(text string) *regexp.Regexp {
	return regexp.MustCompile(`(?s)` + strings.ReplaceAll(text, " ", `[\s│|]+`))
}
