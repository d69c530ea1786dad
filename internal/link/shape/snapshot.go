package shape

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// snapshot is the queueing discipline at the root of a device with all that is
// below it, in the kernel's own words, so that it can be put back without
// understanding it.
type snapshot struct {
	Disciplines []object `json:"disciplines"` // parents first
	Classes     []object `json:"classes,omitempty"`

	filters bool // it has filters, which are not kept
}

// object is a discipline or a class.
type object struct {
	Handle  uint32 `json:"handle"`
	Parent  uint32 `json:"parent"`
	Kind    string `json:"kind"`
	Options []byte `json:"options,omitempty"`
}

// take looks at a device's root.
func take(device string) (*snapshot, error) {
	found, err := deviceOf(device)
	if err != nil {
		return nil, err
	}
	s := &snapshot{}
	if s.Disciplines, err = objects(found.Index, unix.RTM_GETQDISC, unix.RTM_NEWQDISC, 0); err != nil {
		return nil, err
	}
	if s.Classes, err = objects(found.Index, unix.RTM_GETTCLASS, unix.RTM_NEWTCLASS, 0); err != nil {
		return nil, err
	}
	kept := s.Disciplines[:0]
	for _, d := range s.Disciplines {
		// The kernel makes those without a handle itself; ingress is apart.
		if d.Handle>>16 != 0 && d.Parent != netlink.HANDLE_INGRESS {
			kept = append(kept, d)
			filters, err := objects(found.Index, unix.RTM_GETTFILTER, unix.RTM_NEWTFILTER, d.Handle)
			if err != nil {
				return nil, err
			}
			s.filters = s.filters || len(filters) > 0
		}
	}
	s.Disciplines = kept
	return s, nil
}

func objects(device int, request, answer uint16, parent uint32) ([]object, error) {
	r := nl.NewNetlinkRequest(int(request), unix.NLM_F_DUMP)
	r.AddData(&nl.TcMsg{Family: nl.FAMILY_ALL, Ifindex: int32(device), Parent: parent})
	messages, err := r.Execute(unix.NETLINK_ROUTE, answer)
	if err != nil {
		return nil, fmt.Errorf("list the queueing disciplines: %w", err)
	}
	var all []object
	for _, message := range messages {
		header := nl.DeserializeTcMsg(message)
		if header.Ifindex != int32(device) {
			continue
		}
		attributes, err := nl.ParseRouteAttr(message[header.Len():])
		if err != nil {
			return nil, err
		}
		o := object{Handle: header.Handle, Parent: header.Parent}
		for _, attribute := range attributes {
			switch attribute.Attr.Type &^ unix.NLA_F_NESTED {
			case nl.TCA_KIND:
				o.Kind = string(bytes.TrimRight(attribute.Value, "\x00"))
			case nl.TCA_OPTIONS:
				o.Options = bytes.Clone(attribute.Value)
			}
		}
		if o.Kind == "htb" && request == unix.RTM_GETQDISC {
			o.normaliseHTB()
		}
		all = append(all, o)
	}
	return all, nil
}

// The layout of HTB's options.
const (
	htbInit        = 2 // attribute
	htbVersion     = 0 // offset, as of the next
	htbDirectCount = 16
)

// normaliseHTB makes HTB's options what it takes: it tells a version of more
// digits than it wants to hear, and counts packets in them.
func (o *object) normaliseHTB() {
	attributes, err := nl.ParseRouteAttr(o.Options)
	if err != nil {
		return
	}
	for _, attribute := range attributes {
		if attribute.Attr.Type == htbInit && len(attribute.Value) >= htbDirectCount+4 {
			version := nl.NativeEndian().Uint32(attribute.Value[htbVersion:])
			if version > 0xffff {
				nl.NativeEndian().PutUint32(attribute.Value[htbVersion:], version>>16)
			}
			nl.NativeEndian().PutUint32(attribute.Value[htbDirectCount:], 0)
		}
	}
}

// restore puts the disciplines and classes on a device whose root is the
// kernel's default.
func (s *snapshot) restore(device string) error {
	found, err := deviceOf(device)
	if err != nil {
		return err
	}
	disciplines, classes := s.Disciplines, s.Classes
	made := map[uint32]bool{netlink.HANDLE_ROOT: true}
	for len(disciplines)+len(classes) > 0 {
		progress := false
		for list, request := range map[*[]object]uint16{&disciplines: unix.RTM_NEWQDISC, &classes: unix.RTM_NEWTCLASS} {
			var later []object
			for _, o := range *list {
				// A class's parent is a class or the discipline, whose number is
				// the handle's upper half; so is that of a discipline.
				class := request == unix.RTM_NEWTCLASS
				if !made[o.Parent] && (!class || o.Parent != netlink.HANDLE_ROOT) || class && !made[o.Handle&0xffff0000] {
					later = append(later, o)
					continue
				}
				err := o.add(found.Index, request)
				if request == unix.RTM_NEWTCLASS && errors.Is(err, unix.EOPNOTSUPP) {
					err = nil // the discipline makes its classes itself
				}
				if err != nil {
					return fmt.Errorf("add %s %s: %w", o.Kind, o.name(), err)
				}
				made[o.Handle] = true
				progress = true
			}
			*list = later
		}
		if !progress {
			return errors.New("it has parts that hang together in a way that is not known")
		}
	}
	return nil
}

func (o object) add(device int, request uint16) error {
	r := nl.NewNetlinkRequest(int(request), unix.NLM_F_CREATE|unix.NLM_F_REPLACE|unix.NLM_F_ACK)
	parent := o.Parent
	if request == unix.RTM_NEWTCLASS && parent == netlink.HANDLE_ROOT {
		parent = o.Handle & 0xffff0000
	}
	r.AddData(&nl.TcMsg{Family: nl.FAMILY_ALL, Ifindex: int32(device), Handle: o.Handle, Parent: parent})
	r.AddData(nl.NewRtAttr(nl.TCA_KIND, nl.ZeroTerminated(o.Kind)))
	if o.Options != nil {
		r.AddData(nl.NewRtAttr(nl.TCA_OPTIONS, o.Options))
	}
	_, err := r.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

// name prints a handle as tc does.
func (o object) name() string {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], o.Handle)
	text := fmt.Sprintf("%x:", binary.BigEndian.Uint16(b[:2]))
	if minor := binary.BigEndian.Uint16(b[2:]); minor != 0 {
		text += fmt.Sprintf("%x", minor)
	}
	return text
}

// kind is the root's.
func (s *snapshot) kind() string {
	for _, d := range s.Disciplines {
		if d.Parent == netlink.HANDLE_ROOT {
			return d.Kind
		}
	}
	return ""
}

func (s *snapshot) describe() string {
	var parts []string
	for _, d := range s.Disciplines {
		parts = append(parts, d.Kind+" "+d.name())
	}
	if len(s.Classes) > 0 {
		parts = append(parts, fmt.Sprintf("%d classes", len(s.Classes)))
	}
	return strings.Join(parts, ", ")
}

func (s *snapshot) equal(t *snapshot) bool {
	same := func(a, b []object) bool {
		if len(a) != len(b) {
			return false
		}
		for _, x := range a {
			found := false
			for _, y := range b {
				found = found || x.Handle == y.Handle && x.Parent == y.Parent && x.Kind == y.Kind && bytes.Equal(x.Options, y.Options)
			}
			if !found {
				return false
			}
		}
		return true
	}
	return same(s.Disciplines, t.Disciplines) && same(s.Classes, t.Classes)
}
