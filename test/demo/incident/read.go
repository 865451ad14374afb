package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/simulate"
)

// incident is a signal over time, with the evictions for it.
type incident struct {
	threshold      eviction.Threshold
	line           signals.Amount // the threshold, for the capacity of the signal
	seen           []sample
	helps, kubelet []mark // evictions with each choice
}

// sample is the amount available at a time.
type sample struct {
	at        time.Duration
	available signals.Amount
}

// mark is an eviction. It is in vain if the other choice evicts no pod at that time, because the end
// of none would help.
type mark struct {
	at   time.Duration
	vain bool
}

// vain returns the number of evictions in vain.
func vain(marks []mark) (n int) {
	for _, m := range marks {
		if m.vain {
			n++
		}
	}
	return n
}

// read simulates the scenario with both choices. Returns an error if it is not a valid NodeScenario,
// or the choices do not differ.
func read(data []byte) (*incident, error) {
	parsed, faults := simulate.Parse(data)
	if err := faults.Err(); err != nil {
		return nil, err
	}
	scenario, is := parsed.(*simulate.NodeScenario)
	if !is {
		return nil, fmt.Errorf("it must be a %s", simulate.NodeKind)
	}
	different, err := compare(scenario)
	if err != nil {
		return nil, err
	}
	i := &incident{}
	if err := i.observe(scenario, different); err != nil {
		return nil, err
	}
	var lines bytes.Buffer
	if err := scenario.WriteJSON(&lines); err != nil {
		return nil, err
	}
	for n, d := 0, json.NewDecoder(&lines); n < len(scenario.Steps); n++ {
		var l simulate.Line
		if err := d.Decode(&l); err != nil {
			return nil, err
		}
		i.mark(scenario.Steps[n].At, &l, different[l.At])
	}
	return i, nil
}

// compare returns the differences between the choices by their time.
func compare(scenario *simulate.NodeScenario) (map[string]*simulate.Difference, error) {
	var lines bytes.Buffer
	if err := scenario.Compare().WriteJSON(&lines); err != nil {
		return nil, err
	}
	different := map[string]*simulate.Difference{}
	for d := json.NewDecoder(&lines); d.More(); {
		var next simulate.Difference
		if err := d.Decode(&next); err != nil {
			return nil, err
		}
		if next.At != "" { // not the summary
			different[next.At] = &next
		}
	}
	if len(different) == 0 {
		return nil, errors.New("both choices decide alike in every step: there is nothing to draw")
	}
	return different, nil
}

// observe sets threshold and samples, for the first hard threshold of a signal with a difference.
func (i *incident) observe(scenario *simulate.NodeScenario, different map[string]*simulate.Difference) error {
	acted := map[string]bool{}
	for _, d := range different {
		acted[d.Kubelet.Signal] = true
	}
	for _, t := range scenario.Policy.Thresholds {
		if !t.Hard() || !acted[t.Signal.String()] {
			continue
		}
		i.threshold = t
		for n := range scenario.Steps {
			if o := &scenario.Steps[n].Node[t.Signal]; o.Known {
				i.seen = append(i.seen, sample{scenario.Steps[n].At, o.Available})
				i.line = t.Value.Of(o.Capacity).Value
			}
		}
		return nil
	}
	return errors.New("no hard threshold has a step in which the choices differ")
}

// mark adds the evictions of a step. Without a difference both choices have that of the line.
func (i *incident) mark(at time.Duration, l *simulate.Line, d *simulate.Difference) {
	helps, kubelet := l.Evicted, l.Evicted
	if d != nil {
		helps, kubelet = d.Helps.Evicted, d.Kubelet.Evicted
	}
	if helps != nil {
		i.helps = append(i.helps, mark{at, false})
	}
	if kubelet != nil {
		i.kubelet = append(i.kubelet, mark{at, helps == nil})
	}
}
