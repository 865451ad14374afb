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
	// bootTime bounds how long a machine may take to say its first word; 2-4 s
	// are usual.
	bootTime = 2 * time.Minute
	// tail is how many lines of the console are shown of a machine that died.
	tail = 60
)

// boot runs the plan in a machine, passes on what the commands print, and
// returns the verdict. An error is one of this side: there was no machine.
func (i *image) boot(ctx context.Context, o *options, plan []wire.Command) (*wire.Verdict, error) {
	if err := install(); err != nil {
		return nil, err
	}
	k, err := provide()
	if err != nil {
		return nil, err
	}
	initramfs, err := i.pack(ctx, k, plan)
	if err != nil {
		return nil, err
	}
	disk, err := i.disk(ctx)
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
	err = m.run(ctx, qemu(o, k, initramfs, disk, m.console))
	if verdict := m.verdict.Err(); o.console || err != nil || errors.As(verdict, new(*wire.Incomplete)) {
		m.showConsole()
	}
	return m.verdict, err
}

// qemu is the command line. The first serial line is the kernel's console, the
// second the report, which is qemu's standard output. The plainest processor is
// the fastest to emulate, by a third where pages are touched; and an emulated
// time-stamp counter that the kernel is not told to trust makes every reading of
// the clock cost 5 µs. A timer interrupt that comes late, because this machine is
// busy, is no reason to give up.
func qemu(o *options, k *kernel, initramfs, disk, console string) []string {
	return []string{"qemu-system-x86_64",
		"-accel", "tcg,thread=multi", "-M", "pc", "-cpu", "qemu64",
		"-smp", strconv.Itoa(o.cpus), "-m", strconv.Itoa(o.memory),
		"-nodefaults", "-no-reboot", "-display", "none",
		"-serial", "file:" + console, "-serial", "stdio",
		"-drive", "file=" + disk + ",format=raw,if=virtio,cache=unsafe",
		"-kernel", k.vmlinuz, "-initrd", initramfs,
		"-append", "console=ttyS0 panic=-1 psi=1 tsc=reliable no_timer_check quiet"}
}

// A machine is one that runs.
type machine struct {
	console string // file
	verdict *wire.Verdict
	strange []string // lines that are no report
}

// run runs qemu until it ends or ctx does.
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
	silence := time.AfterFunc(bootTime, func() { cancel(fmt.Errorf("the machine said nothing within %v", bootTime)) })
	defer silence.Stop()
	m.listen(report, silence)
	err = cmd.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err != nil {
		return fmt.Errorf("qemu: %w", err)
	}
	return nil
}

// listen reads the report to its end, whatever is in it.
func (m *machine) listen(report io.Reader, silence *time.Timer) {
	lines := bufio.NewReaderSize(report, 64<<10)
	for {
		text, err := lines.ReadBytes('\n')
		if err != nil {
			return // half a line is none
		}
		l, err := wire.DecodeLine(text)
		if err != nil {
			m.strange = append(m.strange, err.Error())
			continue
		}
		m.verdict.Take(&l)
		switch l.Kind {
		case wire.Booted:
			silence.Stop()
		case wire.Printed:
			_, _ = stream(l.Stream).Write(l.Text) // nobody to tell
		}
	}
}

func stream(n int) io.Writer {
	if n == wire.Stderr {
		return os.Stderr
	}
	return os.Stdout
}

// showConsole prints the end of the kernel's console, and what else was said.
func (m *machine) showConsole() {
	for _, line := range m.strange[:min(len(m.strange), tail)] {
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

// lastLines are the last n lines of a console, without carriage returns.
func lastLines(text string, n int) []string {
	text = strings.TrimSpace(strings.ReplaceAll(text, "\r", ""))
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	return lines[max(0, len(lines)-n):]
}
