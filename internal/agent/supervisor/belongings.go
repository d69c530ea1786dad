package supervisor

import (
	"net/http"
	"os"
	"path/filepath"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/agent/ledger"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/agent/systemd"
)

// belongings keeps the record of what the testbed has on a machine with an
// init of its own.
type belongings struct {
	ledger ledger.Ledger
	owner  string
}

// note notes files that requests write and remove.
func (b belongings) note(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/file" {
			next.ServeHTTP(w, r)
			return
		}
		if r.Method == http.MethodPut {
			if err := b.ledger.Add(b.owner, filepath.Clean(r.URL.Query().Get("path"))); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
		}
		next.ServeHTTP(w, r)
		if r.Method == http.MethodDelete {
			// What stays noted is struck out at the end of the session.
			_ = b.ledger.Settle()
		}
	})
}

// leave removes the testbed's own folder from the machine when nothing of a
// testbed is left there: the last agent to go takes itself along.
func (b belongings) leave() error {
	if err := b.ledger.Settle(); err != nil {
		return err
	}
	files, err := b.ledger.Left()
	if err != nil || len(files) > 0 {
		return err
	}
	services, err := systemd.Names()
	if err != nil || len(services) > 0 {
		return err
	}
	return os.RemoveAll(string(b.ledger))
}
