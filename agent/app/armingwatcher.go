package app

import (
	"context"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
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
const armingSection = "arming"

// ears are those by which the program hears whether it may act, and what it does
// about that beside the loop.
type armingWatcher struct {
	arming        *armingState
	inherited     bool              // an armed agent was here before this one
	configMap     *client.ConfigMap // nil without an API server
	softEvictions *softEvictions    // likewise
	loop          atomic.Pointer[agent.Agent]

	clusterChanged chan struct{} // one slot: the cluster may have spoken
	settingChanged chan struct{} // one slot: it says something else
	disarmSignals  chan os.Signal

	lastFault string // of settle
}

// openSafety weighs what is known before anybody was asked. Whoever is told of a
// change is in place before anybody is listened to.
func (a *app) openArming() {
	var remembered arming.Memory
	save := func(arming.Memory) {}
	if a.state != nil {
		remembered = loadArming(a.state, a.log)
		save = func(m arming.Memory) { a.state.Save(armingSection, m) }
	}
	a.inherited = remembered.Acted
	a.arming = newArmingState(disarmfile.File(a.config.DisarmFile), a.config.DryRun, remembered, save, a.log)
	a.node.arming = a.arming
	a.clusterChanged, a.settingChanged = make(chan struct{}, 1), make(chan struct{}, 1)
	a.arming.onChange(a.armingChanged)
}

// tellArming has everybody look whether he may go on. It does not wait.
func (a *app) armingChanged() {
	a.metrics.Armed(a.arming.armed())
	if a := a.loop.Load(); a != nil {
		a.Wake()
	}
	if a.reporter.conditions != nil {
		a.reporter.conditions.Kick()
	}
	if a.reporter.heartbeat != nil {
		a.reporter.heartbeat.Kick()
	}
}

// listen begins to hear what is said: by the file, by a signal, and by the
// cluster.
func (a *app) watchArming(ctx context.Context) {
	a.metrics.Armed(a.arming.armed())
	a.group.Go(func() { watchDisarmFile(ctx, a.arming.file, func() { a.arming.Check() }) })
	a.group.Go(func() { a.watchSignals(ctx) })
	if a.api != nil && a.config.HeartbeatNamespace != "" {
		a.configMap = client.WatchConfigMap(ctx, a.api, a.config.HeartbeatNamespace, arming.ConfigMap, a.noteClusterChange)
	}
	if a.api != nil {
		a.readCluster()
		a.group.Go(func() { a.watchCluster(ctx) })
	}
	a.group.Go(func() { a.examine(ctx) })
	a.group.Go(func() { a.finish(ctx) })
}

// heedSignals makes the disarm file for SIGUSR1, so that a restart does not arm.
func (a *app) watchSignals(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.disarmSignals:
			if err := a.arming.file.Create("by SIGUSR1"); err != nil {
				a.log.Error("disarmed by a signal until a restart only", "error", err)
				a.arming.update(func(w *arming.Words) { w.Signaled = true })
			}
			a.arming.Check()
		}
	}
}

// hasSpoken notes that the cluster may say something else. It does not wait.
func (a *app) noteClusterChange() {
	select {
	case a.clusterChanged <- struct{}{}:
	default:
	}
}

func (a *app) watchCluster(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.clusterChanged:
			a.readCluster()
		}
	}
}

// hear takes over what the cluster says. As long as it says nothing, because it
// can not be asked, what it said last holds.
func (a *app) readCluster() {
	var told bool
	a.arming.update(func(w *arming.Words) {
		all, node := w.All, w.Node
		if a.configMap != nil && a.configMap.Synced() {
			data := a.configMap.Data()
			all = arming.Voice{Word: data[arming.KeyAll], Accepted: data[arming.KeyAccept]}
		}
		if a.apiNode.Synced() {
			node = arming.Voice{}
			if object := a.apiNode.Object(); object != nil {
				node = arming.Voice{Word: object.Annotations[arming.Annotation], Accepted: object.Annotations[arming.AnnotationAccept]}
			}
		}
		told = all != w.All || node != w.Node
		w.Hear(all, node)
	})
	if told {
		select {
		case a.settingChanged <- struct{}{}:
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
func (a *app) examine(ctx context.Context) {
	pause := refusedPeriod
	for looks := 0; ctx.Err() == nil; looks++ {
		if found, err := a.findings(ctx, looks%rightsEvery == 0); err != nil {
			a.log.Error("the node could not be examined: what was found before counts", "error", err)
		} else {
			a.arming.update(func(w *arming.Words) { w.Findings = arming.Findings{Known: true, Errors: found} })
		}
		if pause = min(2*pause, examinePeriod); !a.arming.current().Refuses() {
			pause = examinePeriod
		}
		timer := time.NewTimer(pause - rand.N(pause/10))
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-a.settingChanged:
			looks, pause = -1, refusedPeriod
		}
		timer.Stop()
	}
}

// missingRight is the code of what was found by asking for rights.
const missingRight = "right-missing"

// findings are the codes of the doctor's errors. Where rights are not asked for, or
// nobody answers, what was found of them before holds.
func (a *app) findings(ctx context.Context, rights bool) ([]string, error) {
	_, fault := examine.RuntimeEndpoint(a.config)
	o, err := examine.Options(a.config, a.api, a.runtime, fault)
	if err != nil {
		return nil, err
	}
	if !rights {
		o.Rights = nil
	}
	if a.apiPods != nil {
		o.Images = a.apiPods.hostImages
	}
	facts := probe.Node(ctx, o)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	found := doctor.Errors(doctor.Examine(facts), nil)
	answered := rights && (facts.Server == nil || facts.Server.Denied.Known)
	if !answered && slices.Contains(a.arming.current().findings, missingRight) {
		found = append(found, missingRight)
	}
	return found, nil
}

// catchDisarmSignal keeps SIGUSR1 from ending the agent, from the start on.
func (a *app) catchDisarmSignal() {
	a.disarmSignals = make(chan os.Signal, 1)
	signal.Notify(a.disarmSignals, syscall.SIGUSR1)
	a.closers = append(a.closers, func() { signal.Stop(a.disarmSignals) })
}

// filePeriod is how often the directory of the file is looked for, to be notified
// of what happens there. Whatever is missed is found by the next regular look, and
// before anything is done that can not be undone.
const disarmFilePeriod = time.Minute

// watchDisarmFile has changed called whenever something happens in the file's directory,
// until ctx ends.
func watchDisarmFile(ctx context.Context, f disarmfile.File, changed func()) {
	if f == "" {
		return
	}
	repeat(ctx, disarmFilePeriod, func() bool {
		followDisarmFile(ctx, f, changed)
		return true
	})
}

// followDisarmFile returns when the directory is not there (any more), or ctx ends.
func followDisarmFile(ctx context.Context, f disarmfile.File, changed func()) {
	dir := filepath.Dir(string(f))
	w, err := watchDirectory(dir)
	if err != nil {
		return
	}
	defer w.Close()
	changed() // while nobody watched
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.Errors:
			return
		case e := <-w.Events:
			switch e.Name {
			case string(f):
				changed()
			case dir: // removed, or another was put in its place
				return
			}
		}
	}
}
