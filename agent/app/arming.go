package app

import (
	"context"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/internal/arming"
	"plimsoll.dev/plimsoll/internal/arming/disarmfile"
	"plimsoll.dev/plimsoll/internal/doctor"
	"plimsoll.dev/plimsoll/internal/doctor/examine"
	"plimsoll.dev/plimsoll/internal/doctor/probe"
	"plimsoll.dev/plimsoll/internal/kube/client"
)

// savedArming is the section of the state file with what was said last.
const savedArming = "arming"

// ears are those by which the program hears whether it may act, and what it does
// about that beside the loop.
type ears struct {
	safety    *safety
	inherited bool              // an armed agent was here before this one
	forAll    *client.ConfigMap // nil without an API server
	requests  *requests         // likewise
	looker    atomic.Pointer[agent.Agent]

	heard   chan struct{} // one slot: the cluster may have spoken
	told    chan struct{} // one slot: it says something else
	signals chan os.Signal

	complained string // of settle
}

// openSafety weighs what is known before anybody was asked. Whoever is told of a
// change is in place before anybody is listened to.
func (p *program) openSafety() {
	var remembered arming.Memory
	save := func(arming.Memory) {}
	if p.state != nil {
		remembered = rememberedArming(p.state, p.log)
		save = func(m arming.Memory) { p.state.Save(savedArming, m) }
	}
	p.inherited = remembered.Acted
	p.safety = newSafety(disarmfile.File(p.config.DisarmFile), p.config.DryRun, remembered, save, p.log)
	p.node.safety = p.safety
	p.heard, p.told = make(chan struct{}, 1), make(chan struct{}, 1)
	p.safety.onChange(p.tellArming)
}

// tellArming has everybody look whether he may go on. It does not wait.
func (p *program) tellArming() {
	p.metrics.Armed(p.safety.acts())
	if a := p.looker.Load(); a != nil {
		a.Wake()
	}
	if p.reporter.conditions != nil {
		p.reporter.conditions.Kick()
	}
	if p.reporter.heartbeat != nil {
		p.reporter.heartbeat.Kick()
	}
}

// listen begins to hear what is said: by the file, by a signal, and by the
// cluster.
func (p *program) listen(ctx context.Context) {
	p.metrics.Armed(p.safety.acts())
	p.crew.Go(func() { watchDisarmFile(ctx, p.safety.file, func() { p.safety.Check() }) })
	p.crew.Go(func() { p.heedSignals(ctx) })
	if p.api != nil && p.config.HeartbeatNamespace != "" {
		p.forAll = client.WatchConfigMap(ctx, p.api, p.config.HeartbeatNamespace, arming.ConfigMap, p.hasSpoken)
	}
	if p.api != nil {
		p.hear()
		p.crew.Go(func() { p.hearAll(ctx) })
	}
	p.crew.Go(func() { p.examine(ctx) })
	p.crew.Go(func() { p.settle(ctx) })
}

// heedSignals makes the disarm file for SIGUSR1, so that a restart does not arm.
func (p *program) heedSignals(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.signals:
			if err := p.safety.file.Create("by SIGUSR1"); err != nil {
				p.log.Error("disarmed by a signal until a restart only", "error", err)
				p.safety.say(func(w *arming.Words) { w.Signaled = true })
			}
			p.safety.Check()
		}
	}
}

// hasSpoken notes that the cluster may say something else. It does not wait.
func (p *program) hasSpoken() {
	select {
	case p.heard <- struct{}{}:
	default:
	}
}

func (p *program) hearAll(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.heard:
			p.hear()
		}
	}
}

// hear takes over what the cluster says. As long as it says nothing, because it
// can not be asked, what it said last holds.
func (p *program) hear() {
	var told bool
	p.safety.say(func(w *arming.Words) {
		all, node := w.All, w.Node
		if p.forAll != nil && p.forAll.Synced() {
			data := p.forAll.Data()
			all = arming.Voice{Word: data[arming.KeyAll], Accepted: data[arming.KeyAccept]}
		}
		if p.apiNode.Synced() {
			node = arming.Voice{}
			if object := p.apiNode.Object(); object != nil {
				node = arming.Voice{Word: object.Annotations[arming.Annotation], Accepted: object.Annotations[arming.AnnotationAccept]}
			}
		}
		told = all != w.All || node != w.Node
		w.Hear(all, node)
	})
	if told {
		select {
		case p.told <- struct{}{}:
		default:
		}
	}
}

// How often the node is examined: less and less often while that keeps the agent
// from arming itself though it was told to, down to the pace of all others. What
// the API server has to be asked for, one question for each right, is asked at the
// start, when another word is said, and every so many looks: thousands of nodes do
// the same.
const (
	examinePeriod = 10 * time.Minute
	refusedPeriod = time.Minute
	rightsEvery   = 6
)

// examine has the doctor look at the node at the start, now and then, and when
// somebody says another word.
func (p *program) examine(ctx context.Context) {
	pause := refusedPeriod
	for looks := 0; ctx.Err() == nil; looks++ {
		if found, err := p.findings(ctx, looks%rightsEvery == 0); err != nil {
			p.log.Error("the node could not be examined: what was found before counts", "error", err)
		} else {
			p.safety.say(func(w *arming.Words) { w.Findings = arming.Findings{Known: true, Errors: found} })
		}
		if pause = min(2*pause, examinePeriod); !p.safety.holds().Refuses() {
			pause = examinePeriod
		}
		timer := time.NewTimer(pause - rand.N(pause/10))
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-p.told:
			looks, pause = -1, refusedPeriod
		}
		timer.Stop()
	}
}

// missingRight is the code of what was found by asking for rights.
const missingRight = "right-missing"

// findings are the codes of the doctor's errors. Where rights are not asked for, or
// nobody answers, what was found of them before holds.
func (p *program) findings(ctx context.Context, rights bool) ([]string, error) {
	_, fault := examine.RuntimeEndpoint(p.config)
	o, err := examine.Options(p.config, p.api, p.client, fault)
	if err != nil {
		return nil, err
	}
	if !rights {
		o.Rights = nil
	}
	if p.apiPods != nil {
		o.Images = p.apiPods.hostImages
	}
	facts := probe.Node(ctx, o)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	found := doctor.Errors(doctor.Examine(facts), nil)
	answered := rights && (facts.Server == nil || facts.Server.Denied.Known)
	if !answered && slices.Contains(p.safety.holds().findings, missingRight) {
		found = append(found, missingRight)
	}
	return found, nil
}

// catchDisarmSignal keeps SIGUSR1 from ending the agent, from the start on.
func (p *program) catchDisarmSignal() {
	p.signals = make(chan os.Signal, 1)
	signal.Notify(p.signals, syscall.SIGUSR1)
	p.close = append(p.close, func() { signal.Stop(p.signals) })
}
