package daemon

import (
	"net/netip"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/underlay"
)

const (
	// smallRead is what a waiting packet is copied out of a buffer of maxRead
	// for, so that many small packets do not hold much memory.
	smallRead = 2048
	// spare is how many buffers of each kind a port keeps for reuse.
	spare = 256
	// gather is how long runs that follow each other closely wait for each
	// other: neighbours of one packet then go in one call.
	gather = 50 * time.Microsecond
	// maxLead bounds how long before a packet is due the thread wakes up.
	maxLead = 150 * time.Microsecond
	// spinShare is the part of the time that a thread may spend watching the
	// clock, spinBudget what it may save up.
	spinShare  = 8
	spinBudget = time.Millisecond
)

// port is one attached host. One thread does everything for the packets that
// the host sends: it reads them, draws their fates, holds those that wait and
// writes them into the device of the other host. Nothing is handed to another
// thread, which would cost more than the forwarding.
type port struct {
	underlay.HeldPort

	fd    int // of the TUN device
	wake  int // eventfd
	pidfd int // of the namespace's process

	// writers lets other ports write while the descriptor is open.
	writers sync.RWMutex
	closed  bool

	// pairs are the ways from here, by the address they lead to. The map is
	// replaced, never changed.
	pairs atomic.Pointer[map[netip.Addr]*pair]

	leave atomic.Bool   // asks the thread to end
	ended chan struct{} // closed when it has

	// What follows belongs to the thread.
	clock   func() time.Duration
	waiting queue
	big     []*packet
	small   []*packet
	head    [maxHeaders]byte
	scratch []byte        // of maxRead, for answers and corrupted packets
	lead    time.Duration // how late the kernel wakes this thread, as measured
	budget  time.Duration // for watching the clock
	sent    time.Duration // when a run that waited was last sent
	checked time.Duration // when the budget was last filled up
}

// open makes the device of a port and returns the port without a thread.
func open(held underlay.HeldPort, mtu int, clock func() time.Duration) (p *port, err error) {
	p = &port{HeldPort: held, fd: -1, wake: -1, pidfd: -1, ended: make(chan struct{}), clock: clock, scratch: make([]byte, maxRead)}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	p.pairs.Store(&map[netip.Addr]*pair{})
	if p.pidfd, err = unix.PidfdOpen(held.Process.PID, 0); err != nil {
		return nil, os.NewSyscallError("pidfd_open", err)
	}
	if p.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return nil, os.NewSyscallError("eventfd", err)
	}
	p.fd, err = openTUN(held.Port, mtu)
	return p, err
}

// stop ends the thread and closes the device.
func (p *port) stop() {
	p.leave.Store(true)
	p.poke()
	<-p.ended
	p.close()
}

// poke makes the thread look at what has changed.
func (p *port) poke() {
	one := [8]byte{1}
	_, _ = unix.Write(p.wake, one[:])
}

func (p *port) close() {
	p.writers.Lock()
	defer p.writers.Unlock()
	p.closed = true
	for _, fd := range []int{p.fd, p.wake, p.pidfd} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// run forwards until stop is called or the host's process ends, and then calls
// gone.
func (p *port) run(gone func()) {
	defer gone()
	defer close(p.ended)
	runtime.LockOSThread() // for ever: the thread's settings are its own
	keepTime()
	buffer := p.buffer(true)
	for !p.leave.Load() {
		now := p.clock()
		p.release(now)
		n, errno := rawRead(p.fd, buffer.buffer)
		switch {
		case errno == 0:
			if buffer.parse(n) {
				p.forward(buffer, now)
			}
			if buffer.refs > 0 {
				buffer = p.buffer(true)
			}
		case errno == unix.EAGAIN:
			if !p.wait() {
				return
			}
		case errno != unix.EINTR:
			return
		}
	}
}

// keepTime makes the kernel wake the calling thread when it asked for, however
// busy the machine is: a link whose delay grows with the load of the programs
// under test would measure itself. A machine that refuses this still works.
func keepTime() {
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	realtime := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1}
	if unix.SchedSetAttr(0, &realtime, 0) != nil {
		_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), -15)
	}
}

// wait returns when the device has a packet, the next run is due or poke was
// called. It returns false when the host's process has ended.
func (p *port) wait() bool {
	now := p.clock()
	p.budget = min(spinBudget, p.budget+(now-p.checked)/spinShare)
	p.checked = now
	var timeout *unix.Timespec
	lead := p.lead
	wake := time.Duration(0)
	if next := p.waiting.next(); next != nil {
		if p.budget < maxLead {
			lead = 0
		}
		wake = max(next.due-lead, p.sent+gather)
		if wake <= now {
			p.budget -= p.watch(max(next.due, wake))
			return true
		}
		t := unix.NsecToTimespec(int64(wake - now))
		timeout = &t
	}
	fds := [3]unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}, {Fd: int32(p.wake), Events: unix.POLLIN}, {Fd: int32(p.pidfd), Events: unix.POLLIN}}
	n, err := unix.Ppoll(fds[:], timeout, nil)
	switch {
	case err != nil:
		return err == unix.EINTR
	case n == 0:
		// Wake up earlier next time by as much as this was late, on average.
		p.lead = min(maxLead, p.lead+(p.clock()-wake-p.lead)/8)
	case fds[2].Revents != 0:
		return false
	case fds[1].Revents != 0:
		var drain [8]byte
		_, _ = unix.Read(p.wake, drain[:])
	}
	return fds[0].Revents&^unix.POLLIN == 0
}

// watch watches the clock until a time that is near, or until the device has a
// packet, and returns how long it did.
func (p *port) watch(until time.Duration) time.Duration {
	start := p.clock()
	now := start
	fd := [1]unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}
	var zero unix.Timespec
	for now < until {
		n, _, _ := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&fd[0])), 1, uintptr(unsafe.Pointer(&zero)), 0, 0, 0)
		now = p.clock()
		if n != 0 {
			break
		}
	}
	return now - start
}

// forward draws the fates of a packet's segments and sends or holds them.
func (p *port) forward(packet *packet, now time.Duration) {
	pair := (*p.pairs.Load())[packet.destination()]
	if pair == nil {
		if answer := unreachable(p.scratch, packet); answer != nil {
			p.write(answer, nil)
		}
		return
	}
	impairment := pair.current()
	c := &pair.counters
	c.received.Add(uint64(packet.segments))
	if impairment.IsZero() {
		p.send(run{packet: packet, pair: pair, to: packet.segments, bit: -1})
		return
	}
	if impairment.Delays() && len(packet.ip) <= smallRead-vnetLen {
		small := p.buffer(false)
		small.copyFrom(packet)
		packet = small
		defer func() {
			if small.refs == 0 {
				p.recycle(small)
			}
		}()
	}
	var open run // the segments so far that share a fate
	for segment := range packet.segments {
		verdict := impairment.Decide(packet.length(segment), now)
		for _, copied := range verdict.Copies[:verdict.N] {
			if open.packet != nil && open.to == segment && open.due == copied.Due && open.bit < 0 && copied.Bit < 0 {
				open.to++
				continue
			}
			p.dispatch(open, now)
			open = run{due: copied.Due, packet: packet, pair: pair, from: segment, to: segment + 1, bit: copied.Bit}
			if copied.Bit >= 0 {
				c.corrupted.Add(1)
			}
			if copied.Reordered {
				c.reordered.Add(1)
			}
		}
		if verdict.Lost+verdict.Dropped > 0 {
			c.lost.Add(uint64(verdict.Lost))
			c.dropped.Add(uint64(verdict.Dropped))
		}
		if verdict.Duplicated {
			c.duplicated.Add(1)
		}
	}
	p.dispatch(open, now)
	c.waiting.Store(int64(impairment.Waiting()))
}

// dispatch sends a run that is due and holds any other.
func (p *port) dispatch(r run, now time.Duration) {
	switch {
	case r.packet == nil:
	case r.due <= now:
		p.send(r)
	default:
		r.packet.refs++
		p.waiting.push(r)
	}
}

// release sends the runs that are due. Neighbours of one packet go together.
func (p *port) release(now time.Duration) {
	next := p.waiting.next()
	for next != nil && next.due <= now {
		p.sent = now
		r := p.waiting.pop()
		refs := 1
		for next = p.waiting.next(); next != nil && next.due <= now && next.packet == r.packet && next.from == r.to && r.bit < 0 && next.bit < 0; next = p.waiting.next() {
			r.to = p.waiting.pop().to
			refs++
		}
		r.pair.current().Leave(r.to - r.from)
		r.pair.counters.waiting.Store(int64(r.pair.impairment.Waiting()))
		p.send(r)
		if r.packet.refs -= refs; r.packet.refs == 0 {
			p.recycle(r.packet)
		}
	}
}

// send writes a run into the other host's device.
func (p *port) send(r run) {
	headers, payload := r.packet.buffer[:vnetLen+len(r.packet.ip)], []byte(nil)
	if r.packet.gso != gsoNone && (r.to-r.from < r.packet.segments || r.bit >= 0) {
		headers, payload = r.packet.cut(p.head[:], r.from, r.to)
	}
	if r.bit >= 0 {
		n := copy(p.scratch, headers)
		n += copy(p.scratch[n:], payload)
		headers, payload = p.scratch[:n], nil
		headers[vnetLen+r.bit/8] ^= 1 << (r.bit % 8)
	}
	c := &r.pair.counters
	if !r.pair.to.write(headers, payload) {
		c.unreachable.Add(uint64(r.to - r.from))
		return
	}
	c.delivered.Add(uint64(r.to - r.from))
	c.bytes.Add(uint64(r.packet.bytes(r.from, r.to)))
}

// write hands a packet in two parts to the port's host. It returns false when
// the host does not take it.
func (p *port) write(headers, payload []byte) bool {
	p.writers.RLock()
	defer p.writers.RUnlock()
	if p.closed {
		return false
	}
	parts := [2]unix.Iovec{{Base: &headers[0]}}
	parts[0].SetLen(len(headers))
	count := uintptr(1)
	if len(payload) > 0 {
		parts[1].Base = &payload[0]
		parts[1].SetLen(len(payload))
		count = 2
	}
	_, _, errno := unix.RawSyscall(unix.SYS_WRITEV, uintptr(p.fd), uintptr(unsafe.Pointer(&parts[0])), count)
	return errno == 0
}

// rawRead reads from a non-blocking descriptor without telling the scheduler.
func rawRead(fd int, buffer []byte) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&buffer[0])), uintptr(len(buffer)))
	return int(n), errno
}

// buffer returns an unused packet with room for any read, or for a small one.
func (p *port) buffer(big bool) *packet {
	pool, size := &p.small, smallRead
	if big {
		pool, size = &p.big, maxRead
	}
	if last := len(*pool) - 1; last >= 0 {
		packet := (*pool)[last]
		*pool = (*pool)[:last]
		return packet
	}
	return &packet{buffer: make([]byte, size)}
}

func (p *port) recycle(packet *packet) {
	pool := &p.small
	if len(packet.buffer) == maxRead {
		pool = &p.big
	}
	if len(*pool) < spare {
		*pool = append(*pool, packet)
	}
}
