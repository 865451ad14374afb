package cgroupnotify

import (
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

// toucher makes this binary touch memory and record the times.
const toucher = "PLIMSOLL_TOUCHER"

// touched is the number of pages that a toucher touches per request: 16 MiB.
const touched = 4096

// stamps are shared by a toucher and its test: the monotonic time, in nanoseconds, right before
// each page was touched.
type stamps = [touched]int64

func shared(fd int) (*stamps, error) {
	m, err := unix.Mmap(fd, 0, int(unsafe.Sizeof(stamps{})), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return (*stamps)(unsafe.Pointer(unsafe.SliceData(m))), nil
}

func monotonic() int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
	return now.Nano()
}

// touchOnRequest touches pages for each byte it reads, and releases them before the next one,
// until the end of its input.
func touchOnRequest() {
	at, err := shared(3)
	if err != nil {
		os.Exit(1)
	}
	request := make([]byte, 1)
	for {
		if n, _ := os.Stdin.Read(request); n == 0 {
			os.Exit(0)
		}
		m, err := unix.Mmap(-1, 0, touched*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil || unix.Madvise(m, unix.MADV_NOHUGEPAGE) != nil {
			os.Exit(1)
		}
		for i := range at {
			at[i] = monotonic()
			m[i*page] = 1
		}
		_, _ = os.Stdout.Write(request)
		_, _ = os.Stdin.Read(request)
		_ = unix.Munmap(m)
		_, _ = os.Stdout.Write(request)
	}
}

// toucherRun is a toucher in a sandbox.
type toucherRun struct {
	at      *stamps
	in, out *os.File
}

func startToucher(b *testing.B, box *sandbox.Node) *toucherRun {
	b.Helper()
	must := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	p, err := box.AddPod("toucher", sandbox.Burstable, "main")
	must(err)
	fd, err := unix.MemfdCreate("stamps", unix.MFD_CLOEXEC)
	must(err)
	file := os.NewFile(uintptr(fd), "stamps")
	must(file.Truncate(int64(unsafe.Sizeof(stamps{}))))
	at, err := shared(fd)
	must(err)
	theirIn, in, err := os.Pipe()
	must(err)
	out, theirOut, err := os.Pipe()
	must(err)
	cmd := exec.Command("/proc/self/exe")
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.ExtraFiles = append(os.Environ(), toucher+"=1"), theirIn, theirOut, []*os.File{file}
	_, err = box.Start(p, "main", cmd)
	must(err)
	b.Cleanup(func() {
		for _, f := range []*os.File{in, out, theirIn, theirOut, file} {
			_ = f.Close()
		}
	})
	return &toucherRun{at, in, out}
}

func (r *toucherRun) request(b *testing.B) {
	if _, err := r.in.Write([]byte{'x'}); err != nil {
		b.Fatal(err)
	}
}

func (r *toucherRun) done(b *testing.B) {
	if _, err := r.out.Read(make([]byte, 1)); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkCrossing measures the time from right before the page above the line is touched
// until Wait has returned. It includes the kernel's interval of 128 pages on each CPU.
func BenchmarkCrossing(b *testing.B) {
	onV1(b)
	box, n, m := benchNotifier(b)
	r := startToucher(b, box)
	for range 2 { // the first run may use fresh memory of the machine
		r.request(b)
		r.done(b)
	}
	node := observe(b, m)
	lines := []signals.Line{{Signal: signals.MemoryAvailable, At: node[signals.MemoryAvailable].Available - touched/2*page}}
	n.Follow(&node, lines)
	n.arming.Wait()
	n.Follow(&node, lines)
	level := n.lines[0].lines[0].level
	var took []int64
	for b.Loop() {
		before, err := m.Usage()
		if err != nil {
			b.Fatal(err)
		}
		r.request(b)
		for !n.Wait(time.Now().Add(timeout), true).Has(signals.ByCrossing) {
		}
		now := monotonic()
		r.done(b)
		took = append(took, now-r.at[(level-before)/page])
		r.request(b)
		r.done(b)
		n.Wait(time.Now().Add(3*near.every), true) // below the line again, and the pace permits a wake
		n.Wait(time.Now().Add(3*near.every), true)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2])/1e3, "µs-median")
	b.ReportMetric(float64(took[len(took)*99/100])/1e3, "µs-p99")
}
