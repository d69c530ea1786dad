package shape

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/link"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/netem"
)

// rootHandle is the handle of our root, by which it is known without a record.
const rootHandle = "7bed:"

// untouchedPackets is the room of queues for packets that meet nothing.
const untouchedPackets = "1000"

// stepError is a step of tc or ip that failed.
type stepError struct {
	argv []string
	text string
	err  error
}

func (e *stepError) Error() string {
	if e.text == "" {
		return fmt.Sprintf("%s: %v", host.Quote(e.argv), e.err)
	}
	return fmt.Sprintf("%s: %s", host.Quote(e.argv), e.text)
}

func (e *stepError) Unwrap() error { return e.err }

func (s *shaper) run(argv ...string) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	command := exec.CommandContext(s.ctx, argv[0], argv[1:]...)
	command.Stdout, command.Stderr = &stdout, &stderr
	command.Env = append(command.Environ(), "LC_ALL=C", "PATH=/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin")
	if err := command.Run(); err != nil {
		text := strings.TrimSpace(stderr.String())
		text, _, _ = strings.Cut(text, "\nWe have an error talking to the kernel")
		return nil, &stepError{argv, text, err}
	}
	return stdout.Bytes(), nil
}

func (s *shaper) tc(args ...string) error {
	_, err := s.run(append([]string{"tc"}, args...)...)
	return err
}

func (s *shaper) ip(args ...string) error {
	_, err := s.run(append([]string{"ip"}, args...)...)
	return err
}

// discipline is a queueing discipline as tc prints it.
type discipline struct {
	Kind    string          `json:"kind"`
	Handle  string          `json:"handle"`
	Parent  string          `json:"parent"`
	Root    bool            `json:"root"`
	Options json.RawMessage `json:"options"`
}

// isDefault tells whether nobody has chosen the discipline.
func (d discipline) isDefault() bool { return d.Handle == "" || d.Handle == "0:" }

func (s *shaper) disciplines(device string) ([]discipline, error) {
	text, err := s.run("tc", "-j", "qdisc", "show", "dev", device)
	if err != nil {
		return nil, err
	}
	var all []discipline
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("read the queueing disciplines of device %s: %w", device, err)
	}
	return all, nil
}

func (s *shaper) root(device string) (discipline, error) {
	all, err := s.disciplines(device)
	if err != nil {
		return discipline{}, err
	}
	for _, d := range all {
		if d.Root {
			return d, nil
		}
	}
	return discipline{}, nil
}

// addRoot adds our root, past which goes what no filter catches.
func (s *shaper) addRoot(device string) error {
	return s.tc("qdisc", "add", "dev", device, "root", "handle", rootHandle, "htb", "default", "0", "direct_qlen", untouchedPackets)
}

// target is where a link's class is.
type target struct {
	device string
	class  int
	leaf   *int
}

func (w *work) target(b *base, way way) target {
	if way.out {
		return target{w.Device, w.Class, &w.Leaf}
	}
	return target{b.Ifb, w.Class, &w.IngressLeaf}
}

func (t target) classID() string { return rootHandle + strconv.FormatInt(int64(t.class), 16) }

// leafHandle is one of two that the leaf of a class may have.
func (t target) leafHandle(which int) int { return 0x7000 + 2*t.class + which }

// setLeaf gives the class the leaf that does next. HTB is there to send packets
// to leaves, so the class's rate is beyond that of any device.
func (s *shaper) setLeaf(t target, before *netem.Direction, next netem.Direction, mtu int) error {
	err := s.tc("class", "replace", "dev", t.device, "parent", rootHandle, "classid", t.classID(),
		"htb", "rate", "32gbit", "ceil", "32gbit", "burst", "4mb", "cburst", "4mb", "quantum", "60000")
	if err != nil {
		return err
	}
	now, err := s.leaf(t)
	if err != nil {
		return err
	}
	args := []string{"pfifo", "limit", untouchedPackets}
	if !next.IsZero() {
		args = next.TcArgs(mtu)
	}
	handle := t.leafHandle(0)
	if now.Handle == fmt.Sprintf("%x:", handle) {
		handle = t.leafHandle(1)
	}
	if before != nil && now.Kind == args[0] && now.Handle == fmt.Sprintf("%x:", *t.leaf) && !before.Sticks(next) {
		if now.Kind == "netem" {
			if read, err := before.ReadTc(now.Options, mtu); err == nil && read.Equal(*before) {
				handle = *t.leaf
			}
		} else {
			handle = *t.leaf
		}
	}
	err = s.tc(append([]string{"qdisc", "replace", "dev", t.device, "parent", t.classID(), "handle", fmt.Sprintf("%x:", handle)}, args...)...)
	if err != nil {
		return explain(err)
	}
	*t.leaf = handle
	return nil
}

// explain adds what tc's words for a netem discipline leave open.
func explain(err error) error {
	switch text := err.Error(); {
	case strings.Contains(text, `What is "seed"`):
		return fmt.Errorf("%w; the tc of this host knows no seed: remove seed from the profile, or install iproute2 6.6 or later", err)
	case strings.Contains(text, "duplicating netems"):
		return fmt.Errorf("%w; this kernel has no other netem discipline on a device on which one duplicates: remove duplicate from the profiles of this device's links, or let the host have one link there", err)
	}
	return err
}

// leaf returns the discipline of a class, none when there is none.
func (s *shaper) leaf(t target) (discipline, error) {
	all, err := s.disciplines(t.device)
	if err != nil {
		return discipline{}, err
	}
	for _, d := range all {
		if d.Parent == t.classID() {
			return d, nil
		}
	}
	return discipline{}, nil
}

// The preferences of a link's filters, counted from eight times its class.
const (
	exempt4 = iota + 1
	shape4
	exempt6
	shape6
)

// filterArgs are the filters that send to the class what a peer gets or sends,
// SSH between the hosts first, which goes past it.
func (w *work) filterArgs(way way) [][]string {
	address := "src"
	if way.out {
		address = "dst"
	}
	t := w.target(&base{}, way)
	var all [][]string
	add := func(peer netip.Addr, kind int, to string, more ...string) {
		protocol, ip := "ip", "ip"
		if peer.Is6() {
			protocol, ip = "ipv6", "ip6"
			kind += exempt6 - exempt4
		}
		args := []string{"protocol", protocol, "pref", strconv.Itoa(8*w.Class + kind), "u32", "match", ip, address, fmt.Sprintf("%s/%d", peer, peer.BitLen())}
		for len(more) > 0 {
			args = append(args, "match", ip, more[0], more[1], more[2])
			more = more[3:]
		}
		all = append(all, append(args, "flowid", to))
	}
	for _, peer := range w.Peers {
		for _, port := range w.SSHPorts {
			for _, side := range []string{"sport", "dport"} {
				add(peer, exempt4, rootHandle+"0", "protocol", "6", "0xff", side, strconv.Itoa(int(port)), "0xffff")
			}
		}
		add(peer, shape4, t.classID())
	}
	return all
}

// redirectArgs are the filters that send what peers send to the ifb device.
func (w *work) redirectArgs(ifb string) [][]string {
	var all [][]string
	for _, peer := range w.Peers {
		protocol, ip, kind := "ip", "ip", shape4
		if peer.Is6() {
			protocol, ip, kind = "ipv6", "ip6", shape6
		}
		all = append(all, []string{"protocol", protocol, "pref", strconv.Itoa(8*w.Class + kind), "u32",
			"match", ip, "src", fmt.Sprintf("%s/%d", peer, peer.BitLen()),
			"action", "mirred", "egress", "redirect", "dev", ifb})
	}
	return all
}

// ingressParent is where filters for what comes in are, whether the discipline
// is ingress or clsact.
const ingressParent = "ffff:fff2"

// filters returns what tc says of a link's filters below a parent, one line
// for each, and their preferences. It is text, since tc prints the matches of
// a filter under the same key.
func (s *shaper) filters(device, parent string, class int) (string, []int, error) {
	text, err := s.run("tc", "-j", "filter", "show", "dev", device, "parent", parent)
	if err != nil {
		return "", nil, err
	}
	var all []json.RawMessage
	if len(bytes.TrimSpace(text)) > 0 {
		if err := json.Unmarshal(text, &all); err != nil {
			return "", nil, fmt.Errorf("read the filters of device %s: %w", device, err)
		}
	}
	var lines strings.Builder
	var preferences []int
	for _, filter := range all {
		var f struct {
			Pref int `json:"pref"`
		}
		if err := json.Unmarshal(filter, &f); err != nil {
			return "", nil, fmt.Errorf("read the filters of device %s: %w", device, err)
		}
		if f.Pref/8 != class {
			continue
		}
		lines.Write(filter)
		lines.WriteByte('\n')
		if !slices.Contains(preferences, f.Pref) {
			preferences = append(preferences, f.Pref)
		}
	}
	return lines.String(), preferences, nil
}

// clearFilters removes a link's filters below a parent.
func (s *shaper) clearFilters(device, parent string, class int) error {
	_, preferences, err := s.filters(device, parent, class)
	if err != nil {
		return err
	}
	for _, pref := range preferences {
		if err := s.tc("filter", "del", "dev", device, "parent", parent, "pref", strconv.Itoa(pref)); err != nil {
			return err
		}
	}
	return nil
}

// leafOfClass is what tc prints of a class and changes with its leaf.
var leafOfClass = regexp.MustCompile(` leaf [0-9a-f]+:`)

// told is what the kernel tells of a link's class and filters in one way.
func (s *shaper) told(b *base, w *work, way way) (filters, redirects string, err error) {
	t := w.target(b, way)
	class, err := s.run("tc", "class", "show", "dev", t.device, "classid", t.classID())
	if err != nil {
		return "", "", err
	}
	if filters, _, err = s.filters(t.device, rootHandle, t.class); err != nil {
		return "", "", err
	}
	filters = leafOfClass.ReplaceAllString(string(class), "") + filters
	if !way.out {
		redirects, _, err = s.filters(w.Device, ingressParent, t.class)
	}
	return filters, redirects, err
}

// ours tells whether the root of the device of a way is ours.
func (s *shaper) ours(device string) (bool, error) {
	if device == "" {
		return false, nil
	}
	if _, err := deviceOf(device); err != nil {
		return false, nil //nolint:nilerr // a device that is gone has no root
	}
	root, err := s.root(device)
	return root.Kind == "htb" && root.Handle == rootHandle, err
}

// filtersInOrder tells whether the filters are as they were set.
func (s *shaper) filtersInOrder(b *base, w *work, way way) (bool, error) {
	t := w.target(b, way)
	if ours, err := s.ours(t.device); err != nil || !ours {
		return false, err
	}
	filters, redirects, err := s.told(b, w, way)
	if way.out {
		return err == nil && filters == w.Filters, err
	}
	return err == nil && filters == w.IngressFilters && redirects == w.Redirects, err
}

func (s *shaper) setFilters(b *base, w *work, way way) error {
	t := w.target(b, way)
	if err := s.clearFilters(t.device, rootHandle, t.class); err != nil {
		return err
	}
	for _, args := range w.filterArgs(way) {
		if err := s.tc(append([]string{"filter", "add", "dev", t.device, "parent", rootHandle}, args...)...); err != nil {
			return err
		}
	}
	if !way.out {
		if err := s.clearFilters(w.Device, ingressParent, t.class); err != nil {
			return err
		}
		for _, args := range w.redirectArgs(b.Ifb) {
			if err := s.tc(append([]string{"filter", "add", "dev", w.Device, "parent", ingressParent}, args...)...); err != nil {
				return err
			}
		}
	}
	filters, redirects, err := s.told(b, w, way)
	if way.out {
		w.Filters = filters
	} else {
		w.IngressFilters, w.Redirects = filters, redirects
	}
	return err
}

// removeDirection removes a link's class and filters in one way.
func (s *shaper) removeDirection(b *base, w *work, way way) error {
	if b == nil {
		return nil
	}
	t := w.target(b, way)
	if !way.out && b.Ifb != "" {
		if err := s.clearFilters(w.Device, ingressParent, t.class); err != nil {
			return err
		}
	}
	if ours, err := s.ours(t.device); err != nil || !ours {
		return err
	}
	if err := s.clearFilters(t.device, rootHandle, t.class); err != nil {
		return err
	}
	class, err := s.run("tc", "class", "show", "dev", t.device, "classid", t.classID())
	if err != nil || len(bytes.TrimSpace(class)) == 0 {
		return err
	}
	*t.leaf = 0
	return s.tc("class", "del", "dev", t.device, "classid", t.classID())
}

// removeRedirects removes the filters by which our links send to an ifb device.
func (s *shaper) removeRedirects(device string) error {
	all, err := s.disciplines(device)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(all, func(d discipline) bool { return d.Kind == "ingress" || d.Kind == "clsact" }) {
		return nil
	}
	r, err := s.load()
	if err != nil {
		return err
	}
	for _, w := range r.Links {
		if w.Device == device {
			if err := s.clearFilters(device, ingressParent, w.Class); err != nil {
				return err
			}
		}
	}
	return nil
}

// readDirection returns what packets of one way meet, nil for nothing, also
// where somebody has changed what sends packets there.
func (s *shaper) readDirection(b *base, w *work, way way, mtu int) (*netem.Direction, error) {
	wanted := w.Egress
	if !way.out {
		wanted = w.Ingress
	}
	if wanted == nil {
		return nil, nil
	}
	inOrder, err := s.filtersInOrder(b, w, way)
	if err != nil || !inOrder {
		return nil, err
	}
	leaf, err := s.leaf(w.target(b, way))
	if err != nil {
		return nil, err
	}
	switch {
	case leaf.Kind == "netem":
		read, err := wanted.ReadTc(leaf.Options, mtu)
		return &read, err
	case leaf.Kind == "pfifo" && wanted.IsZero():
		return wanted, nil
	}
	return nil, nil
}

// errorText is the last part of a failed step's error.
func errorText(err error) string {
	var step *stepError
	if errors.As(err, &step) && step.text != "" {
		return step.text
	}
	return err.Error()
}

// kindsOfLinks are what a part needs of the kernel.
func kindsOfLinks(part link.Part) []string {
	kinds := []string{"sch_htb", "cls_u32"}
	if part.Egress != nil && !part.Egress.IsZero() || part.Ingress != nil && !part.Ingress.IsZero() {
		kinds = append(kinds, "sch_netem")
	}
	if part.Ingress != nil {
		kinds = append(kinds, "ifb", "sch_ingress", "act_mirred")
	}
	return kinds
}
