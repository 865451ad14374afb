package referee

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"plimsoll.dev/plimsoll/test/bench/nodepressure/hog"
	"plimsoll.dev/plimsoll/test/bench/nodepressure/score"
	"plimsoll.dev/plimsoll/test/bench/nodepressure/watch"
)

// exitTimeout bounds the wait for the exit state of a process that the witness saw ending.
const exitTimeout = 5 * time.Second

// observe collects what was seen, while everything that is left still runs.
func (s *state) observe() (*score.Observation, error) {
	report, err := s.witness.End()
	if err != nil {
		return nil, err
	}
	ms := func(at int64) float64 { return float64(at-s.begin) / 1e6 }
	o := &score.Observation{
		Total: s.total, Threshold: s.threshold, Duration: ms(s.end), Least: report.Least, MachineKills: report.KillsOnMachine,
		Witness: score.Witness{Realtime: report.Realtime, Samples: report.Samples, MaxGap: float64(report.MaxGap) / 1e6},
		Slots:   report.Slots, SlotWidth: float64(slotWidth.Milliseconds()),
	}
	o.Crossed, o.Exhausted = moment(report.Crossed, ms), moment(report.Exhausted, ms)
	if o.Plan, err = s.fingerprint(); err != nil {
		return nil, err
	}
	if o.Enlarged, err = s.node.Enlarged(); err != nil {
		return nil, err
	}
	if o.Contestant, err = s.observeContestant(); err != nil {
		return nil, err
	}
	beat, err := hog.ReadBeat(s.beat)
	if err != nil {
		return nil, err
	}
	// A gap that lasts until the end counts too.
	o.Heartbeat = score.Heartbeat{Alive: alive(s.heartbeat), MaxGap: float64(max(beat.MaxGap, s.end-max(beat.Last, s.begin))) / 1e6}
	requests, err := hog.ReadRecords(s.records)
	if err != nil {
		return nil, err
	}
	until := s.end
	if report.Crossed != 0 {
		until = min(until, report.Crossed+score.JudgedAfter*int64(time.Millisecond))
	}
	o.Neighbour = digest(requests, requestRate, s.quietFrom, s.begin, until, s.end)
	o.Phase = float64(s.phase) / 1e6
	for _, x := range s.made {
		pod, err := s.observePod(x, &report, ms)
		if err != nil {
			return nil, err
		}
		o.Pods = append(o.Pods, pod)
	}
	return o, nil
}

func moment(at int64, ms func(int64) float64) *float64 {
	if at == 0 {
		return nil
	}
	t := ms(at)
	return &t
}

func alive(x *instance) bool {
	return !slices.ContainsFunc(x.processes, func(p *process) bool {
		select {
		case <-p.done:
			return true
		default:
			return false
		}
	})
}

func (s *state) observeContestant() (*score.Contestant, error) {
	if len(s.contestant.programs) == 0 {
		return nil, nil
	}
	resident, err := s.node.MaxResident()
	if err != nil {
		return nil, err
	}
	c := &score.Contestant{
		CPUWaiting:  100 * float64(s.cost.begin-s.cost.started) / float64(s.begin-s.quietFrom),
		CPUIncident: float64(s.cost.end-s.cost.begin) / 1e6, MaxResident: resident, Elsewhere: s.Contestant.Elsewhere,
	}
	c.Ended, c.Output = s.contestant.ended()
	c.StartTime = float64(s.contestant.startTime) / 1e6
	return c, nil
}

// observePod collects the ends of a pod's processes up to the end of the incident.
func (s *state) observePod(x *instance, report *watch.Report, ms func(int64) float64) (p score.Pod, err error) {
	p = score.Pod{Name: x.name, Group: x.group, UID: x.uid, Daemon: x.daemon, AtLimit: x.place.AtLimit(), Stopped: x.place.Stopped()}
	for _, d := range report.Deaths {
		if d.Pod != x.id || d.At > s.end {
			continue
		}
		one, err := x.exit(d.PID)
		if err != nil {
			return p, err
		}
		one.At, one.PID, one.Least = ms(d.At), d.PID, d.Least
		p.Deaths = append(p.Deaths, one)
	}
	for _, k := range report.Kills {
		if k.Pod == x.id {
			p.Kills = append(p.Kills, score.Kill{At: ms(k.At), Count: k.Count, Least: k.Least})
		}
	}
	text, err := os.ReadFile(x.lost)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return p, err
	}
	for _, field := range strings.Fields(string(text)) {
		at, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return p, fmt.Errorf("times of killed children: %w", err)
		}
		if at <= s.end {
			p.Lost = append(p.Lost, ms(at))
		}
	}
	return p, nil
}

// exit returns how a process ended.
func (x *instance) exit(pid int) (d score.Death, err error) {
	for _, p := range x.processes {
		if p.cmd.Process.Pid != pid {
			continue
		}
		select {
		case <-p.done:
		case <-time.After(exitTimeout):
			return d, fmt.Errorf("process %d of %s has ended, but its state is missing", pid, x.name)
		}
		if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			d.Signal = int(status.Signal())
		} else {
			d.Code = p.cmd.ProcessState.ExitCode()
		}
		return d, nil
	}
	return d, fmt.Errorf("the witness saw the end of process %d, which is not of %s", pid, x.name)
}

// serveSlot is the width of the slots of the neighbour's throughput.
const serveSlot = 250 * time.Millisecond

// digest summarizes requests before the incident, and in it until a time. A request that was due and has no answer at
// the end has waited until then.
func digest(requests []hog.Request, rate int, quietFrom, begin, until, end int64) score.Neighbour {
	n := score.Neighbour{Rate: float64(rate), SlotWidth: float64(serveSlot.Milliseconds()), Until: float64(until-begin) / 1e6}
	var before, during []float64
	slots := int((end - begin) / int64(serveSlot))
	answered := make([]float64, slots)
	due := begin
	for _, r := range requests {
		done := r.Due + r.Latency
		if slot := int((done - begin) / int64(serveSlot)); done >= begin && slot < slots {
			answered[slot]++
		}
		switch {
		case r.Due < quietFrom || r.Due >= end:
		case r.Due < begin:
			before = append(before, float64(r.Latency)/1e6)
		default:
			due = r.Due
			if r.Due < until {
				during = append(during, float64(r.Latency)/1e6)
			}
		}
	}
	for due += int64(time.Second) / int64(rate); due < until; due += int64(time.Second) / int64(rate) {
		during = append(during, float64(end-due)/1e6)
	}
	for i := range answered {
		answered[i] /= float64(rate) * serveSlot.Seconds()
	}
	n.Quiet, n.During, n.Slots = latency(before), latency(during), answered
	return n
}

func latency(all []float64) score.Latency {
	slices.Sort(all)
	return score.Latency{Requests: len(all), P50: score.Quantile(all, 0.5), P99: score.Quantile(all, 0.99), Max: score.Quantile(all, 1)}
}
