package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/control"
)

// lockPath is where the one who changes a machine says so. It goes when the
// machine restarts.
const lockPath = "/run/testbed-agent.lock"

// lock lets one owner at a time change a machine. It is advisory: who only
// looks needs none, and it says nothing about changes without the agent.
type lock struct {
	path  string
	owner control.Owner

	mu   sync.Mutex
	file *os.File // held until it is dropped or this program ends
}

// holder is what the lock's file says.
type holder struct {
	control.Owner
	Since time.Time `json:"since"`
}

// take takes the lock, or says who has it. Another connection of the same
// owner is no hindrance: it may be one that broke and does not know yet.
func (l *lock) take() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		return nil
	}
	for {
		file, err := os.OpenFile(l.path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o644)
		if err != nil {
			return fmt.Errorf("take the host's lock: %w", err)
		}
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			defer file.Close()
			return l.permit(file)
		}
		if err == nil && !named(file, l.path) {
			file.Close() // its holder dropped it meanwhile
			continue
		}
		if err == nil {
			err = l.sign(file)
		}
		if err != nil {
			file.Close()
			return fmt.Errorf("take the host's lock: %w", err)
		}
		l.file = file
		return nil
	}
}

// named reports whether a file is still the one of that name.
func named(file *os.File, name string) bool {
	opened, err := file.Stat()
	if err != nil {
		return false
	}
	present, err := os.Lstat(name)
	return err == nil && os.SameFile(opened, present)
}

// held reports whether this owner has taken the lock.
func (l *lock) held() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file != nil
}

// drop gives the lock back and removes its file.
func (l *lock) drop() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	err := os.Remove(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // a client has removed it with all else
	}
	err = errors.Join(err, l.file.Close())
	l.file = nil
	return err
}

// sign writes into the lock's file whose it is.
func (l *lock) sign(file *os.File) error {
	content, err := json.Marshal(holder{l.owner, time.Now().UTC()})
	if err != nil {
		return err
	}
	if err := file.Truncate(0); err != nil {
		return err
	}
	_, err = file.WriteAt(content, 0)
	return err
}

// permit is nil when the lock is this owner's.
func (l *lock) permit(file *os.File) error {
	content, err := io.ReadAll(io.LimitReader(file, 4<<10))
	if err != nil {
		return fmt.Errorf("read the host's lock: %w", err)
	}
	var other holder
	if json.Unmarshal(content, &other) != nil || other.Name == "" {
		return busy("another apply changes this host at the moment; wait until it has ended")
	}
	if other.ID == l.owner.ID {
		return nil
	}
	return busy(fmt.Sprintf("%s changes this host since %s; wait until that apply has ended, or end it", other.Name, other.Since.Format(time.RFC3339)))
}

// busy is the error of a host that someone else changes.
type busy string

func (b busy) Error() string { return string(b) }

// guard lets requests that change the machine pass only with the lock.
func (l *lock) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut || r.Method == http.MethodDelete {
			err := l.take()
			var held busy
			if errors.As(err, &held) {
				http.Error(w, err.Error(), http.StatusLocked)
				return
			}
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}
