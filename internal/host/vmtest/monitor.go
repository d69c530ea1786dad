package vmtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// command gives the machine's emulator a command of its QMP protocol and
// returns what it answers. The monitor serves one client after the other.
func (m *Machine) command(ctx context.Context, name string, arguments any) (json.RawMessage, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", m.monitorFile())
	if err != nil {
		return nil, fmt.Errorf("%s on %s: %w", name, m.Name, err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	answers := json.NewDecoder(conn)
	var greeting json.RawMessage
	if err := answers.Decode(&greeting); err != nil {
		return nil, fmt.Errorf("%s on %s: %w", name, m.Name, err)
	}
	if _, err := execute(conn, answers, "qmp_capabilities", nil); err != nil {
		return nil, fmt.Errorf("%s on %s: %w", name, m.Name, err)
	}
	answer, err := execute(conn, answers, name, arguments)
	if err != nil {
		return nil, fmt.Errorf("%s on %s: %w", name, m.Name, err)
	}
	return answer, nil
}

// execute sends one command and skips the events before its answer.
func execute(conn net.Conn, answers *json.Decoder, name string, arguments any) (json.RawMessage, error) {
	request := map[string]any{"execute": name}
	if arguments != nil {
		request["arguments"] = arguments
	}
	if err := json.NewEncoder(conn).Encode(request); err != nil {
		return nil, err
	}
	for {
		var answer struct {
			Return json.RawMessage `json:"return"`
			Error  *struct {
				Text string `json:"desc"`
			} `json:"error"`
		}
		switch err := answers.Decode(&answer); {
		case err != nil:
			return nil, err
		case answer.Error != nil:
			return nil, errors.New(answer.Error.Text)
		case answer.Return != nil:
			return answer.Return, nil
		}
	}
}

// human gives a command of the monitor for people, some of which QMP lacks.
// What they print is an error.
func (m *Machine) human(ctx context.Context, line string) error {
	answer, err := m.command(ctx, "human-monitor-command", map[string]string{"command-line": line})
	if err != nil {
		return err
	}
	var text string
	if err := json.Unmarshal(answer, &text); err != nil {
		return err
	}
	if text = strings.TrimSpace(text); text != "" {
		return fmt.Errorf("%s on %s: %s", line, m.Name, text)
	}
	return nil
}
