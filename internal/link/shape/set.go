package shape

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/link"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/netem"
)

func deviceOf(name string) (*net.Interface, error) {
	found, err := net.InterfaceByName(name)
	if err != nil {
		return nil, fmt.Errorf("find device %s: %w", name, err)
	}
	return found, nil
}

// set makes the kernel do a part. What is done already stays, so a part that
// differs in its directions only is changed in place.
func (s *shaper) set(part link.Part) error {
	device, err := s.deviceFor(part)
	if err != nil {
		return err
	}
	return s.setOn(device, part)
}

func (s *shaper) setOn(name string, part link.Part) error {
	r, err := s.load()
	if err != nil {
		return err
	}
	if known := r.Links[part.Link]; known != nil && (known.Device != name || !slices.Equal(known.Peers, part.Peers)) {
		if err := s.remove(part.Link); err != nil {
			return err
		}
		if r, err = s.load(); err != nil {
			return err
		}
	}
	if err := r.apart(part, name); err != nil {
		return err
	}
	w := r.Links[part.Link]
	if w == nil {
		class, err := r.freeClass(name)
		if err != nil {
			return err
		}
		w = &work{Device: name, Class: class}
	}
	before := w.Part
	if part.BaseRTT == 0 {
		part.BaseRTT = before.BaseRTT
	}
	w.Part = part
	r.Links[part.Link] = w
	if err := s.prepare(r, w); err != nil {
		return err
	}
	if err := s.setDirection(r, w, egress, before.Egress, part.Egress); err != nil {
		return err
	}
	if err := s.setDirection(r, w, ingress, before.Ingress, part.Ingress); err != nil {
		return err
	}
	return s.save(r)
}

// deviceFor returns the one device by which all peers are reached.
func (s *shaper) deviceFor(part link.Part) (string, error) {
	if len(part.Peers) == 0 {
		return "", errors.New("the part has no peers")
	}
	name := ""
	for _, peer := range part.Peers {
		found, err := s.route(peer)
		if err != nil {
			return "", err
		}
		if name != "" && found.Device != name {
			return "", fmt.Errorf("packets to %s leave by device %s, but those to %s by %s; name addresses behind one device", part.Peers[0], name, peer, found.Device)
		}
		name = found.Device
		switch {
		case part.Place == link.Overlay && !found.Overlay:
			return "", fmt.Errorf("packets to %s leave by device %s, which is no overlay's; name addresses of the overlay, or write on = \"underlay\"", peer, name)
		case part.Place == link.Underlay && found.Overlay:
			return "", fmt.Errorf("packets to %s leave by device %s, which is an overlay's; name addresses of the underlay, or write on = \"overlay\"", peer, name)
		}
	}
	return name, nil
}

// apart refuses an address that another link has on the device already.
func (r *record) apart(part link.Part, device string) error {
	for id, w := range r.Links {
		if id == part.Link || w.Device != device {
			continue
		}
		for _, peer := range part.Peers {
			if slices.Contains(w.Peers, peer) {
				return fmt.Errorf("packets to %s are shaped on device %s already, by link %s; two hosts have one link at one place", peer, device, id)
			}
		}
	}
	return nil
}

// maxClass keeps the numbers that are made of a class's in their ranges.
const maxClass = 0x7ff

func (r *record) freeClass(device string) (int, error) {
	used := map[int]bool{}
	for _, w := range r.Links {
		if w.Device == device {
			used[w.Class] = true
		}
	}
	for class := 1; class <= maxClass; class++ {
		if !used[class] {
			return class, nil
		}
	}
	return 0, fmt.Errorf("device %s has %d links already", device, maxClass)
}

// prepare makes the device ready for links: our root, segments no larger than
// packets, and the ifb device for what comes in. What it is going to do is in
// the record before it is done, so that whoever undoes it after this process
// was killed finds it there.
func (s *shaper) prepare(r *record, w *work) error {
	device, err := deviceOf(w.Device)
	if err != nil {
		return err
	}
	b := r.Devices[w.Device]
	if b == nil {
		b = &base{Index: device.Index}
		r.Devices[w.Device] = b
	}
	if !w.KeepOffloads {
		on, err := offloadsOn(w.Device)
		if err != nil {
			return fmt.Errorf("read the offloads of device %s: %w", w.Device, err)
		}
		for _, name := range on {
			if !slices.Contains(b.Offloads, name) {
				b.Offloads = append(b.Offloads, name)
			}
		}
	}
	if err := s.save(r); err != nil {
		return err
	}
	if w.Egress != nil {
		if err := s.takeRoot(r, w.Device, b, w.ReplaceExisting); err != nil {
			return err
		}
	}
	if w.Ingress != nil {
		if err := s.takeIngress(r, w.Device, b); err != nil {
			return err
		}
	}
	if !w.KeepOffloads {
		if err := setOffloads(w.Device, b.Offloads, 0); err != nil {
			return fmt.Errorf("turn offloads of device %s off: %w", w.Device, err)
		}
	}
	return nil
}

// takeRoot makes our root the device's.
func (s *shaper) takeRoot(r *record, device string, b *base, replace bool) error {
	root, err := s.root(device)
	if err != nil {
		return err
	}
	if root.Handle == rootHandle && root.Kind == "htb" {
		return nil
	}
	if !root.isDefault() {
		found, err := take(device)
		if err != nil {
			return err
		}
		if !replace {
			return fmt.Errorf("device %s has a queueing discipline of somebody else at its root, %s; remove it with \"tc qdisc del dev %s root\", or set replace_existing = true, which puts it back when the link is destroyed", device, found.describe(), device)
		}
		if err := s.rehearseRestore(found); err != nil {
			return fmt.Errorf("device %s has a queueing discipline of somebody else at its root, %s, that could not be put back as it is: %w; remove it with \"tc qdisc del dev %s root\"", device, found.describe(), err, device)
		}
		b.Root = found
		if err := s.save(r); err != nil { // before it is gone
			return err
		}
	}
	if !root.isDefault() {
		if err := s.tc("qdisc", "del", "dev", device, "root"); err != nil {
			return err
		}
	}
	// Whoever had classes below a root of ours that is gone has none any more.
	for id, w := range r.Links {
		if w.Device == device && w.Filters != "" {
			w.Filters, w.Leaf = "", 0
			r.Links[id] = w
		}
	}
	return s.addRoot(device)
}

// takeIngress makes what comes in available to an ifb device of ours.
func (s *shaper) takeIngress(r *record, device string, b *base) error {
	all, err := s.disciplines(device)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(all, func(d discipline) bool { return d.Kind == "ingress" || d.Kind == "clsact" }) {
		b.Ingress = true
		if err := s.save(r); err != nil {
			return err
		}
		if err := s.tc("qdisc", "add", "dev", device, "ingress"); err != nil {
			return err
		}
	}
	name := fmt.Sprintf("ifb-tb%d", b.Index)
	if _, err := deviceOf(name); err == nil {
		b.Ifb = name
		return nil
	}
	b.Ifb = name
	if err := s.save(r); err != nil {
		return err
	}
	if err := s.ip("link", "add", name, "type", "ifb"); err != nil {
		return err
	}
	if err := s.ip("link", "set", name, "up"); err != nil {
		return err
	}
	return s.addRoot(name)
}

// remove undoes a part. One that is not there is no error.
func (s *shaper) remove(id string) error {
	r, err := s.load()
	if err != nil {
		return err
	}
	w := r.Links[id]
	if w == nil {
		return s.save(r)
	}
	b := r.Devices[w.Device]
	delete(r.Links, id)
	last := true
	for _, other := range r.Links {
		last = last && other.Device != w.Device
	}
	if last {
		if err := s.giveBack(w.Device, b); err != nil {
			return err
		}
		delete(r.Devices, w.Device)
		return s.save(r)
	}
	if err := s.removeDirection(b, w, egress); err != nil {
		return err
	}
	if err := s.removeDirection(b, w, ingress); err != nil {
		return err
	}
	return s.save(r)
}

// giveBack makes a device what it was before its first link.
func (s *shaper) giveBack(device string, b *base) error {
	if b.Ifb != "" {
		if err := s.removeRedirects(device); err != nil {
			return err
		}
		if _, err := deviceOf(b.Ifb); err == nil {
			if err := s.ip("link", "del", b.Ifb); err != nil {
				return err
			}
		}
	}
	if b.Ingress {
		all, err := s.disciplines(device)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(all, func(d discipline) bool { return d.Kind == "ingress" }) {
			if err := s.tc("qdisc", "del", "dev", device, "ingress"); err != nil {
				return err
			}
		}
	}
	root, err := s.root(device)
	if err != nil {
		return err
	}
	if root.Handle == rootHandle && root.Kind == "htb" {
		if err := s.tc("qdisc", "del", "dev", device, "root"); err != nil {
			return err
		}
		root = discipline{Handle: "0:"}
	}
	if b.Root != nil && root.isDefault() { // else somebody has chosen another meanwhile
		if err := b.Root.restore(device); err != nil {
			return fmt.Errorf("put back the queueing discipline of device %s, %s: %w", device, b.Root.describe(), err)
		}
	}
	if err := setOffloads(device, b.Offloads, 1); err != nil {
		return fmt.Errorf("turn offloads of device %s on again: %w", device, err)
	}
	return nil
}

// observe returns what is done for a link. It is an fs.ErrNotExist when
// nothing is.
func (s *shaper) observe(id string) (link.Shaped, error) {
	r, err := s.load()
	if err != nil {
		return link.Shaped{}, err
	}
	w := r.Links[id]
	if w == nil {
		return link.Shaped{}, fs.ErrNotExist
	}
	b := r.Devices[w.Device]
	device, err := deviceOf(w.Device)
	if err != nil {
		return link.Shaped{}, err
	}
	shaped := link.Shaped{Part: w.Part, Device: w.Device, MTU: device.MTU, OffloadsOff: b.Offloads}
	if b.Root != nil {
		shaped.Replaced = b.Root.kind()
	}
	if shaped.Egress, err = s.readDirection(b, w, egress, device.MTU); err != nil {
		return link.Shaped{}, err
	}
	if shaped.Ingress, err = s.readDirection(b, w, ingress, device.MTU); err != nil {
		return link.Shaped{}, err
	}
	if shaped.Egress == nil && shaped.Ingress == nil {
		return link.Shaped{}, fs.ErrNotExist
	}
	return shaped, nil
}

// way is one of the ways that packets of a device go.
type way struct{ out bool }

var (
	egress  = way{out: true}
	ingress = way{}
)

// setDirection makes packets of one way meet next, or nothing when it is nil.
// It keeps the filters that are in order, and changes a leaf in place unless
// something of the last one would stick to it.
func (s *shaper) setDirection(r *record, w *work, way way, before, next *netem.Direction) error {
	b := r.Devices[w.Device]
	if next == nil {
		if before == nil {
			return nil
		}
		return s.removeDirection(b, w, way)
	}
	device, err := deviceOf(w.Device)
	if err != nil {
		return err
	}
	t := w.target(b, way)
	if err := s.setLeaf(t, before, *next, device.MTU); err != nil {
		return err
	}
	inOrder, err := s.filtersInOrder(b, w, way)
	if err != nil || inOrder {
		return err
	}
	return s.setFilters(b, w, way)
}
