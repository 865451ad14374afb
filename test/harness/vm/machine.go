package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"plimsoll.dev/plimsoll/test/harness/vm/wire"
)

const (
	// bootTime bounds the time until the first line of a machine; 2-4 s are usual.
	bootTime = 2 * time.Minute
	// tail is the number of console lines that are printed after a crash of the machine.
	tail = 60
)

// boot runs the plan in a machine, prints the output of the commands, and returns the verdict.
// It returns an error if there was no machine.
func (i *image) boot(ctx context.Context, o *options, plan []wire.Command) (*wire.Verdict, error) {
	if err := install(nil); err != nil {
		return nil, err
	}
	k, err := provide(o.kernel)
	if err != nil {
		return nil, err
	}
	disks, err := i.disks(ctx, o)
	if err != nil {
		return nil, err
	}
	initramfs, err := i.pack(ctx, k, plan)
	if err != nil {
		return nil, err
	}
	limit := bootTime
	for _, c := range plan {
		limit += c.Limit
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the machine was not finished after %v", limit))
	defer cancel()
	m := machine{console: filepath.Join(i.dir, "console"), verdict: wire.NewVerdict(plan)}
	err = m.run(ctx, qemu(o, k, initramfs, disks, m.console))
	if verdict := m.verdict.Err(); o.console || err != nil || errors.As(verdict, new(*wire.Incomplete)) {
		m.showConsole()
	}
	return m.verdict, err
}

// qemu returns the command line. The first serial line is the kernel's console, the second the
// report, which is qemu's standard output. The simplest processor is the fastest to emulate, by
// a third for page faults. With an emulated time-stamp counter that the kernel does not trust,
// every read of the clock would cost 5 µs. The kernel gets the counter's frequency: on a busy host
// it measured an eighth of it once, and its clock ran eight times too fast. A late timer interrupt
// does not stop it.
func qemu(o *options, k *kernel, initramfs string, disks []string, console string) []string {
	line := "console=ttyS0 panic=-1 psi=1 tsc=reliable no_timer_check"
	if khz := tscKHz(); khz > 0 {
		line += " tsc_early_khz=" + strconv.FormatInt(khz, 10)
	}
	if o.systemd {
		line += " net.ifnames=0 " + wire.RootVariable + "=/dev/vda " + wire.FilesVariable + "=/dev/vdb"
	}
	args := []string{"qemu-system-x86_64",
		"-accel", "tcg,thread=multi", "-M", "pc", "-cpu", "qemu64",
		"-smp", strconv.Itoa(o.cpus), "-m", strconv.Itoa(o.memory),
		"-nodefaults", "-no-reboot", "-display", "none",
		"-serial", "file:" + console, "-serial", "stdio",
		"-kernel", k.vmlinuz, "-initrd", initramfs, "-append", line}
	if o.systemd { // its service gives the interface an address
		network := "user,id=net"
		if o.forward != "" {
			network += fmt.Sprintf(",hostfwd=tcp:127.0.0.1:%[1]s-:%[1]s", o.forward)
		}
		args = append(args, "-netdev", network, "-device", "virtio-net-pci,netdev=net,romfile=")
	}
	for _, disk := range disks {
		args = append(args, drive(disk, o.systemd)...)
	}
	if o.output != "" {
		args = append(args, drive(o.output, false)...)
	}
	return args
}

// drive returns the options for a disk. What the machine writes to a disk of the cache goes to a
// temporary file (snapshot).
func drive(file string, snapshot bool) []string {
	return []string{"-drive", "file=" + file + ",format=raw,if=virtio,cache=unsafe,snapshot=" + map[bool]string{true: "on", false: "off"}[snapshot]}
}

// outputSize is the maximum size of what a command writes to its output. The file is sparse.
const outputSize = 2 << 30

// makeOutput makes an empty disk for the output of a command.
func makeOutput(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(outputSize), f.Close())
}

// disks returns the machine's disks: an empty one, or those of a system.
func (i *image) disks(ctx context.Context, o *options) ([]string, error) {
	if !o.systemd {
		disk, err := i.disk(ctx)
		return []string{disk}, err
	}
	root, err := provideRoot(ctx, o.release, o.more)
	if err != nil {
		return nil, err
	}
	files, err := i.filesDisk(ctx)
	return []string{root, files}, err
}

// machine is a running machine.
type machine struct {
	console    string // path of a file
	verdict    *wire.Verdict
	otherLines []string // lines that are not part of a report
}

// run runs qemu until it exits or ctx ends.
func (m *machine) run(ctx context.Context, args []string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	report, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the machine: %w", err)
	}
	bootTimer := time.AfterFunc(bootTime, func() { cancel(fmt.Errorf("the machine printed nothing within %v", bootTime)) })
	defer bootTimer.Stop()
	m.listen(report, bootTimer)
	err = cmd.Wait()
	if cause := context.Cause(ctx); cause != nil {
		used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime() // a machine that hangs is idle or busy
		return fmt.Errorf("%w; it used %v of processor time", cause, used.Round(time.Millisecond))
	}
	if err != nil {
		return fmt.Errorf("qemu: %w", err)
	}
	return nil
}

// listen reads the report to its end, including invalid lines.
func (m *machine) listen(report io.Reader, bootTimer *time.Timer) {
	lines := bufio.NewReaderSize(report, 64<<10)
	for {
		text, err := lines.ReadBytes('\n')
		if err != nil {
			return // an incomplete line is invalid
		}
		l, err := wire.DecodeLine(text)
		if err != nil {
			m.otherLines = append(m.otherLines, err.Error())
			continue
		}
		m.verdict.Add(&l)
		switch l.Kind {
		case wire.Booted:
			bootTimer.Stop()
		case wire.Printed:
			_, _ = stream(l.Stream).Write(l.Text) // no place to report the error
		}
	}
}

func stream(n int) io.Writer {
	if n == wire.Stderr {
		return os.Stderr
	}
	return os.Stdout
}

// showConsole prints the end of the kernel's console, and the other lines of the serial line.
func (m *machine) showConsole() {
	for _, line := range m.otherLines[:min(len(m.otherLines), tail)] {
		fmt.Fprintln(os.Stderr, "vm: report:", line)
	}
	text, err := os.ReadFile(m.console)
	if err != nil {
		fmt.Fprintln(os.Stderr, "vm: read the console:", err)
		return
	}
	for _, line := range lastLines(string(text), tail) {
		fmt.Fprintln(os.Stderr, "vm: console:", line)
	}
}

// lastLines returns the last n lines of a console, without carriage returns.
func lastLines(text string, n int) []string {
	text = strings.TrimSpace(strings.ReplaceAll(text, "\r", ""))
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	return lines[max(0, len(lines)-n):]
}
