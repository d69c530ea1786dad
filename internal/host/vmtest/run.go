package vmtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// bootWithin is how long a machine may take to boot, on a machine that has
// more to do.
const bootWithin = 10 * time.Minute

// endWithin is how long a command that is interrupted may take to end.
const endWithin = 30 * time.Second

// snapshot is the name of a machine's state after its first boot.
const snapshot = "booted"

// memory of the machines in MiB; the first one can carry a cluster.
var memory = [MaxMachines]int{3072, 1024, 1024}

// Run starts a lab of count machines and runs a command with its folder in the
// environment. The machines end with it.
func Run(ctx context.Context, cache string, count int, argv []string) error {
	if count < 1 || count > MaxMachines {
		return fmt.Errorf("start %d machines: the lab has 1 to %d", count, MaxMachines)
	}
	image, err := makeImage(ctx, cache)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "vmlab-") // short, since sockets have short names
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, name := range []string{keyFile, hostKeyFile} {
		if err := copyFile(filepath.Join(image, name), filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("start the VM lab: %w", err)
		}
	}
	// Machines are children of the thread that starts them, and end with it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	wire, err := newWire(filepath.Join(dir, wireFile))
	if err != nil {
		return fmt.Errorf("start the VM lab: %w", err)
	}
	defer wire.Close()
	l := lab{image: image, dir: dir}
	defer l.end()
	if err := l.start(ctx, count); err != nil {
		return fmt.Errorf("start the VM lab: %w", err)
	}
	if err := save(dir, l.machines); err != nil {
		return fmt.Errorf("start the VM lab: %w", err)
	}
	command := exec.CommandContext(ctx, argv[0], argv[1:]...)
	command.Env = append(os.Environ(), Variable+"="+dir)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGINT) }
	command.WaitDelay = endWithin
	return command.Run()
}

// lab is what Run starts.
type lab struct {
	image, dir string
	machines   []*Machine
	processes  []*exec.Cmd
}

func (l *lab) start(ctx context.Context, count int) error {
	var fresh []*Machine
	for n := 1; n <= count; n++ {
		m := machine(l.dir, n)
		saved := filepath.Join(l.image, m.Name+".qcow2")
		disk := filepath.Join(l.dir, m.Name+".qcow2")
		err := copyFile(saved, disk)
		restore := err == nil
		if errors.Is(err, os.ErrNotExist) {
			fresh = append(fresh, m)
			err = l.output(ctx, "qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", filepath.Join(l.image, diskFile), disk)
		}
		if err != nil {
			return err
		}
		if m.SSH, err = freePort(); err != nil {
			return err
		}
		if err := l.launch(m, n, restore); err != nil {
			return err
		}
		l.machines = append(l.machines, m)
	}
	if len(fresh) > 0 {
		fmt.Fprintf(os.Stderr, "booting %d machines of the VM lab (about a minute each, once)\n", len(fresh))
	}
	for _, m := range fresh {
		if err := m.saveBooted(ctx, l.image); err != nil {
			return err
		}
	}
	return nil
}

// saveBooted waits for the machine's first boot and keeps its state in the
// image's folder.
func (m *Machine) saveBooted(ctx context.Context, image string) error {
	if err := m.AwaitBoot(ctx); err != nil {
		return err
	}
	if err := m.human(ctx, "savevm "+snapshot); err != nil {
		return err
	}
	// The snapshot is in the disk, which is whole and still while the machine
	// is.
	if _, err := m.command(ctx, "stop", nil); err != nil {
		return err
	}
	if err := keep(filepath.Join(m.dir, m.Name+".qcow2"), filepath.Join(image, m.Name+".qcow2")); err != nil {
		return err
	}
	_, err := m.command(ctx, "cont", nil)
	return err
}

// launch starts the emulator.
func (l *lab) launch(m *Machine, n int, restore bool) error {
	argv := []string{
		"qemu-system-x86_64", "-name", m.Name, "-nodefaults", "-no-user-config", "-display", "none", "-no-shutdown",
		"-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max,la57=off,svm=off", "-smp", "2", "-m", strconv.Itoa(memory[n-1]),
		"-kernel", filepath.Join(l.image, kernelFile), "-initrd", filepath.Join(l.image, initrdFile),
		"-append", fmt.Sprintf("root=/dev/vda rw console=ttyS0 net.ifnames=0 systemd.hostname=%s systemd.machine_id=%032x", m.Name, 0x7e57bed0+n),
		"-serial", "file:" + m.ConsoleFile(), "-qmp", "unix:" + m.monitorFile() + ",server=on,wait=off",
		"-drive", "id=drive0,if=virtio,cache=unsafe,file=" + filepath.Join(l.dir, m.Name+".qcow2"),
		"-device", "virtio-rng-pci",
		"-netdev", "user,id=control,restrict=on,hostfwd=" + m.forwarding(), "-device", "virtio-net-pci,netdev=control",
		"-netdev", "stream,id=underlay,server=off,addr.type=unix,addr.path=" + filepath.Join(l.dir, wireFile),
		"-device", fmt.Sprintf("virtio-net-pci,netdev=underlay,mac=52:54:00:c6:12:%02x", n),
	}
	if restore {
		argv = append(argv, "-loadvm", snapshot)
	}
	log, err := os.Create(filepath.Join(l.dir, m.Name+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	process := exec.Command(argv[0], argv[1:]...)
	process.Stdout, process.Stderr = log, log
	process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := process.Start(); err != nil {
		return err
	}
	l.processes = append(l.processes, process)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		conn, err := net.Dial("unix", m.monitorFile())
		if err == nil {
			return conn.Close()
		}
		if time.Now().After(deadline) {
			text, _ := os.ReadFile(log.Name())
			return fmt.Errorf("start %s: %w: %s", m.Name, err, text)
		}
	}
}

// forwarding is the port of this machine that leads to the machine's sshd, in
// the emulator's words.
func (m *Machine) forwarding() string {
	return fmt.Sprintf("tcp:%s:%d-:22", m.SSH.Addr(), m.SSH.Port())
}

func (l *lab) end() {
	var all sync.WaitGroup
	for _, process := range l.processes {
		all.Go(func() {
			_ = process.Process.Kill()
			_ = process.Wait()
		})
	}
	all.Wait()
}

func (l *lab) output(ctx context.Context, argv ...string) error {
	output, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", argv[0], err, output)
	}
	return nil
}

func freePort() (netip.AddrPort, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return netip.AddrPort{}, err
	}
	address := listener.Addr().String()
	return netip.MustParseAddrPort(address), listener.Close()
}

// keep copies a file to a name that it has only when it is whole.
func keep(from, to string) error {
	if err := copyFile(from, to+".new"); err != nil {
		return err
	}
	return os.Rename(to+".new", to)
}

func copyFile(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}
