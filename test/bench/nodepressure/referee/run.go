package referee

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/test/bench/nodepressure/arena"
	"plimsoll.dev/plimsoll/test/bench/nodepressure/gauge"
	"plimsoll.dev/plimsoll/test/bench/nodepressure/hog"
	"plimsoll.dev/plimsoll/test/bench/nodepressure/score"
	"plimsoll.dev/plimsoll/test/bench/nodepressure/spec"
	"plimsoll.dev/plimsoll/test/bench/nodepressure/watch"
)

// quietTime is the time before the incident in which the neighbour and the contestant are measured: a thousand
// requests, of which the slowest ten decide about the p99.
const quietTime = 5 * time.Second

// setUpTimeout bounds what happens before the incident, the quiet time not included.
const setUpTimeout = 5 * time.Minute

// Sampling of the witness.
const (
	sampleEvery = time.Millisecond
	slotWidth   = 50 * time.Millisecond
)

// Run is one incident against one contestant.
type Run struct {
	Incident   spec.Incident
	Contestant spec.Contestant
	Machine    bool   // the node is the machine
	Seed       uint64 // of everything that varies
	Scratch    string // directory on a disk
}

// state is a run under way.
type state struct {
	Run
	*crew
	contestant *contestant
	witness    *watch.Witness
	gateFile   *os.File
	heartbeat  *instance
	records    string
	beat       string

	quietFrom, begin, end int64 // by gauge.Clock
	cost                  costs
}

// costs is the consumption of the contestant at three times.
type costs struct{ started, begin, end time.Duration }

// ErrUnclean is the error of a run of which processes or directories remain. Further runs would be disturbed.
var ErrUnclean = errors.New("the run was not cleaned up")

// Longest returns a time within which a run ends unless a process of the referee hangs.
func (r Run) Longest() time.Duration {
	return setUpTimeout + quietTime + spec.MaxPhase + r.Incident.Duration + maxRest
}

// maxRest bounds what follows an incident: the report, the end of the contestant and of the node.
const maxRest = 8 * time.Minute

// Do performs the run. Returns an error if the run itself failed; a lost node is an observation. Returns ErrUnclean
// if something of it remains.
func (r Run) Do(ctx context.Context) (o *score.Observation, err error) {
	if err := onDisk(r.Scratch); err != nil {
		return nil, err
	}
	node, err := arena.New(arena.Options{Machine: r.Machine, Limit: r.Incident.Node, Systemd: r.Contestant.Names == "systemd"})
	if err != nil {
		return nil, err
	}
	s := &state{Run: r}
	defer func() {
		if left := s.close(node); left != nil {
			err = errors.Join(err, fmt.Errorf("%w: %w", ErrUnclean, left))
		}
	}()
	if err := s.prepare(ctx, node); err != nil {
		return nil, fmt.Errorf("prepare %s: %w", r.Incident.Name, err)
	}
	if err := s.calm(ctx); err != nil {
		return nil, err
	}
	if err := s.happen(ctx); err != nil {
		return nil, fmt.Errorf("run %s: %w", r.Incident.Name, err)
	}
	return s.observe()
}

// prepare makes everything up to the quiet time.
func (s *state) prepare(ctx context.Context, node *arena.Node) error {
	ctx, cancel := context.WithTimeout(ctx, setUpTimeout)
	defer cancel()
	p := newPlan(s.Incident, node.Gauge(), s.Seed, s.Contestant.Phase)
	s.crew = &crew{plan: p, node: node, deaths: make(chan death, 1000)}
	if err := s.directories(); err != nil {
		return err
	}
	s.contestant = &contestant{Contestant: s.Contestant, node: node, values: values(node, filepath.Join(s.scratch, "contestant"), s.manifests, p.threshold)}
	if err := s.contestant.prepare(ctx); err != nil {
		return err
	}
	if err := s.populate(); err != nil {
		return err
	}
	if err := s.await(ctx, s.made...); err != nil {
		return err
	}
	if err := s.startWitness(); err != nil {
		return err
	}
	return s.contestant.start(ctx)
}

// directories makes those of the run, and the closed gate. Files of the referee are in memory, those of
// processes on a disk.
func (s *state) directories() (err error) {
	prefix := fmt.Sprintf("%s%d-", arena.DirectoryPrefix, os.Getpid())
	if s.dir, err = os.MkdirTemp(inMemory(), prefix); err != nil {
		return err
	}
	if s.scratch, err = os.MkdirTemp(s.Scratch, prefix); err != nil {
		return err
	}
	if err := errors.Join(s.node.NoteDirectory(s.dir), s.node.NoteDirectory(s.scratch)); err != nil {
		return err
	}
	if err := os.Chmod(s.scratch, 0o711); err != nil { // programs that refuse to run as root reach their part of it
		return err
	}
	s.manifests, s.gate = filepath.Join(s.scratch, "manifests"), filepath.Join(s.dir, "gate")
	s.records, s.beat = filepath.Join(s.dir, "records"), filepath.Join(s.dir, "beat")
	if err := errors.Join(os.Mkdir(s.manifests, 0o700), os.Mkdir(filepath.Join(s.scratch, "contestant"), 0o700)); err != nil {
		return err
	}
	if s.gateFile, err = os.Create(s.gate); err != nil {
		return err
	}
	return unix.Flock(int(s.gateFile.Fd()), unix.LOCK_EX)
}

// inMemory returns a directory for the files that processes map: pages on a disk would be written back.
// Empty: the default directory for temporary files.
func inMemory() string {
	for _, dir := range []string{"/dev/shm", "/run"} {
		var fs unix.Statfs_t
		if unix.Statfs(dir, &fs) == nil && fs.Type == unix.TMPFS_MAGIC {
			return dir
		}
	}
	return ""
}

// onDisk returns an error for a directory in memory, where page cache would not be reclaimed.
func onDisk(dir string) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return fmt.Errorf("directory for files of workloads %s: %w", dir, err)
	}
	if fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.RAMFS_MAGIC {
		return fmt.Errorf("%s is in memory: name a directory on a disk with -scratch", dir)
	}
	return nil
}

// populate starts heartbeat, neighbour, pods and daemons.
func (s *state) populate() (err error) {
	if err := errors.Join(hog.CreateRecords(s.records, requestRate, s.duration()), hog.CreateBeat(s.beat)); err != nil {
		return err
	}
	if s.heartbeat, err = s.addDaemon("heartbeat", []hog.Program{{Beat: s.beat}}); err != nil {
		return err
	}
	pods := s.instances()
	for _, i := range s.order {
		one := pods[i]
		if _, err := s.addPod(one.pod, one.name, s.programs(one.name, one.pod.Processes), one.pod.Replace.Times); err != nil {
			return err
		}
	}
	pod, program := s.neighbour()
	program.Serve.Records = s.records
	if _, err := s.addPod(&pod, pod.Name, []hog.Program{program}, 0); err != nil {
		return err
	}
	if len(s.System) == 0 {
		return nil
	}
	_, err = s.addDaemon(daemonName, s.programs(daemonName, s.System))
	return err
}

func (s *state) startWitness() (err error) {
	input := watch.Input{Gauge: s.gauge, Threshold: s.threshold, Every: sampleEvery, Slot: slotWidth, Slots: int(s.Duration/slotWidth) + 1}
	if s.Machine {
		input.Kills = "/proc/vmstat"
	}
	if s.witness, err = watch.Start(input); err != nil {
		return err
	}
	for _, x := range s.made {
		if err := s.witness.Send(watch.Order{Pod: x.watched()}); err != nil {
			return err
		}
	}
	return nil
}

// calm is the quiet time, and the part of the contestant's period. Deaths in it are judged as those in the
// incident.
func (s *state) calm(ctx context.Context) (err error) {
	unix.Sync() // what the last run wrote would slow the quiet time
	if s.cost.started, err = s.node.CPU(); err != nil {
		return err
	}
	s.quietFrom = gauge.Clock()
	select {
	case <-time.After(quietTime + s.phase):
	case <-ctx.Done():
		return ctx.Err()
	}
	s.cost.begin, err = s.node.CPU()
	return err
}

// happen opens the gate and waits for the end of the incident.
func (s *state) happen(ctx context.Context) error {
	if _, err := s.gateFile.WriteString(hog.Open); err != nil {
		return err
	}
	if err := errors.Join(hog.ResetBeat(s.beat), s.witness.Send(watch.Order{Begin: true})); err != nil {
		return err
	}
	if err := unix.Flock(int(s.gateFile.Fd()), unix.LOCK_UN); err != nil {
		return err
	}
	s.begin = gauge.Clock()
	over := time.After(s.Duration)
	var settled <-chan time.Time // set once the expected ends have happened
	later := make(chan *instance, 100)
	expected, pending := 0, 0
	for {
		select {
		case <-over:
			return s.finish()
		case <-settled:
			if pending == 0 {
				return s.finish()
			}
		case <-ctx.Done():
			return ctx.Err()
		case d := <-s.deaths:
			if d.of.daemon {
				continue
			}
			_ = os.Remove(d.of.manifest) // its object has ended
			if slices.Contains(s.Expect.MayKill, d.of.group) {
				expected++
			}
			if d.of.left > 0 {
				pending++
				time.AfterFunc(d.of.pod.Replace.After, func() { later <- d.of })
			}
		case x := <-later:
			pending--
			if err := s.succeed(x); err != nil {
				return err
			}
		}
		settled = nil
		if s.Expect.Exhausts && expected >= s.Expect.Needed && pending == 0 {
			settled = time.After(s.Settle)
		}
	}
}

// succeed makes the successor of an instance, and has it watched.
func (s *state) succeed(x *instance) error {
	next, err := s.replace(x)
	if err != nil {
		return err
	}
	return s.witness.Send(watch.Order{Pod: next.watched()})
}

func (s *state) finish() (err error) {
	s.end = gauge.Clock()
	s.cost.end, err = s.node.CPU()
	return err
}

// close ends and removes everything, in any state.
func (s *state) close(node *arena.Node) error {
	var errs []error
	if s.witness != nil {
		_ = s.witness.Close() // after its report there is nothing to add
	}
	if s.contestant != nil {
		errs = append(errs, s.contestant.stop())
	}
	if s.gateFile != nil {
		errs = append(errs, s.gateFile.Close())
	}
	errs = append(errs, node.Close())
	if s.crew != nil {
		for _, dir := range []string{s.dir, s.scratch} {
			if dir != "" {
				errs = append(errs, os.RemoveAll(dir))
			}
		}
	}
	return errors.Join(errs...)
}
