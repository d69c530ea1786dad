package supervisor

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/local/layout"
)

// logSize is where a log is set aside and the one set aside before is dropped,
// in bytes.
const logSize = 8 << 20

// logFile is what a service writes, of bounded size.
type logFile struct {
	path string

	mu   sync.Mutex
	file *os.File
	size int64
}

func openLog(service string) (*logFile, error) {
	log := &logFile{path: filepath.Join(layout.Logs, service+".log")}
	if err := os.MkdirAll(layout.Logs, 0o755); err != nil {
		return nil, err
	}
	return log, log.open()
}

func (l *logFile) open() error {
	file, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return err
	}
	l.file, l.size = file, info.Size()
	return nil
}

// fill appends all that comes from a pipe and closes it.
func (l *logFile) fill(from *os.File) {
	defer from.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			l.append(buffer[:n])
		}
		if err != nil {
			return
		}
	}
}

// append never blocks or fails the writer: what a full disk or a closed log
// does not take is lost.
func (l *logFile) append(text []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return
	}
	n, _ := l.file.Write(text)
	l.size += int64(n)
	if l.size < logSize {
		return
	}
	l.file.Close()
	l.file = nil
	_ = os.Rename(l.path, l.path+".1")
	_ = l.open()
}

// Close ends the log.
func (l *logFile) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		l.file.Close()
		l.file = nil
	}
}

// tail returns the last lines.
func (l *logFile) tail(lines int) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []byte
	for _, path := range []string{l.path + ".1", l.path} {
		content, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		all = append(all, content...)
	}
	start := len(bytes.TrimSuffix(all, []byte("\n"))) + 1
	for ; lines > 0 && start > 0; lines-- {
		start = bytes.LastIndexByte(all[:start-1], '\n') + 1
	}
	return all[min(start, len(all)):], nil
}
