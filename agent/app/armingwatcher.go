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
	"plimsoll.dev/plimsoll/agent/examine"
	"plimsoll.dev/plimsoll/internal/arming"
	"plimsoll.dev/plimsoll/internal/arming/disarmfile"
	"plimsoll.dev/plimsoll/internal/cri"
	"plimsoll.dev/plimsoll/internal/doctor"
	"plimsoll.dev/plimsoll/internal/doctor/probe"
	"plimsoll.dev/plimsoll/internal/kube/client"
)

// armingSection is the section of the state file with the last settings.
const armingSection = "arming"

// An armingWatcher follows the inputs of arming beside the loop: file, signal, cluster and
// findings.
type armingWatcher struct {
	arming        *armingState
	inherited     bool              // an armed agent ran here before this one
	configMap     *client.ConfigMap // nil without an API server
	softEvictions *softEvictions    // likewise
	loop          atomic.Pointer[agent.Agent]

	clusterChanged chan struct{} // one slot: the cluster's settings may have changed
	settingChanged chan struct{} // one slot: they have changed
	rightRefused   chan struct{} // one slot: the API server refused a status
	disarmSignals  chan os.Signal

	lastFault string // of cleanUp, as it was logged
}

// openArming decides by what is known without the cluster. The listener is added before any
// input is followed.
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
	a.clusterChanged, a.settingChanged, a.rightRefused = make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{}, 1)
	a.arming.onChange(a.armingChanged)
}

// armingChanged has loop, conditions and heartbeat check the decision. It does not wait.
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

// watchArming starts to follow file, signal, cluster and findings.
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

// watchSignals creates the disarm file for SIGUSR1, so that a restart does not arm.
func (a *app) watchSignals(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.disarmSignals:
			if err := a.arming.file.Create("by SIGUSR1"); err != nil {
				a.log.Error("Disarmed by a signal, but only until a restart: cannot create the disarm file", "error", err)
				a.arming.update(func(w *arming.Inputs) { w.Signaled = true })
			}
			a.arming.Check()
		}
	}
}

// noteClusterChange has the cluster's settings read again. It does not wait.
func (a *app) noteClusterChange() { fill(a.clusterChanged) }

// fill fills a channel of one slot. It does not wait: a full slot is read later.
func fill(slot chan<- struct{}) {
	select {
	case slot <- struct{}{}:
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

// readCluster reads the settings of ConfigMap and Node. While these can not be read, the last
// ones hold.
func (a *app) readCluster() {
	var changed bool
	a.arming.update(func(w *arming.Inputs) {
		all, node := w.All, w.Node
		if a.configMap != nil && a.configMap.Synced() {
			data := a.configMap.Data()
			all = arming.Source{Setting: data[arming.KeyAll], Accepted: data[arming.KeyAccept]}
		}
		if a.apiNode.Synced() {
			node = arming.Source{}
			if object := a.apiNode.Object(); object != nil {
				node = arming.Source{Setting: object.Annotations[arming.Annotation], Accepted: object.Annotations[arming.AnnotationAccept]}
			}
		}
		changed = all != w.All || node != w.Node
		w.Read(all, node)
	})
	if changed {
		fill(a.settingChanged)
	}
}

// The node is examined every examinePeriod, and when the kubelet was restarted: whether that is so is read every
// kubeletPace, from refusedPeriod after an examination on. While findings prevent arming, the interval
// begins at 2 min, twice refusedPeriod, and doubles up to that. Rights cost the API server
// one request each, of thousands of nodes: they are checked at the start, after a change
// of settings, in every rightsEvery-th examination, and rulesTime after the API server refused a status: a server that has
// just started may not know its rules. While one is missing, or the server does not answer, every examination checks them.
const (
	examinePeriod = 10 * time.Minute
	refusedPeriod = time.Minute
	kubeletPace   = 10 * time.Second
	rulesTime     = 10 * time.Second
	rightsEvery   = 6
)

// examine has the doctor examine the node at the start, periodically, after a restart of the kubelet, after a
// change of settings, and after a refused status.
func (a *app) examine(ctx context.Context) {
	pause := refusedPeriod
	for n := 0; ctx.Err() == nil; n++ {
		rights := n%rightsEvery == 0 || slices.Contains(a.arming.current().findings, missingRight)
		found, answered, kubelet, err := a.findings(ctx, rights)
		if err != nil {
			a.log.Error("Failed to examine the node, using the previous findings", "error", err)
		} else {
			a.arming.update(func(w *arming.Inputs) { w.Findings = arming.Findings{Known: true, Errors: found} })
		}
		if rights && !answered {
			n = -1 // the next examination checks them
		}
		if pause = min(2*pause, examinePeriod); n >= 0 && !a.arming.current().Refuses() {
			pause = examinePeriod
		}
		if awaitExamination(ctx, pause-rand.N(pause/10), a.settingChanged, a.rightRefused, kubelet.Replaced) {
			n, pause = -1, refusedPeriod
		}
		kubelet.Close()
	}
}

// awaitExamination waits for the next examination: for pause, or until the kubelet is replaced, or a setting
// changes, or for rulesTime after the first refused status, or until ctx ends. It reports whether rights are to be checked.
func awaitExamination(ctx context.Context, pause time.Duration, changed, refused <-chan struct{}, replaced func() bool) (rights bool) {
	due := time.Now().Add(pause)
	timer := time.NewTimer(min(pause, refusedPeriod))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-changed:
			return true
		case <-refused:
			if !rights { // a later one postpones nothing
				rights, due = true, time.Now().Add(rulesTime)
				timer.Reset(rulesTime)
			}
		case <-timer.C:
			left := time.Until(due)
			if left <= 0 || !rights && replaced() {
				return rights
			}
			timer.Reset(min(left, kubeletPace))
		}
	}
}

// missingRight is the code of the finding that needs a check of rights.
const missingRight = "right-missing"

// findings returns the codes of the doctor's errors, and the kubelet that it found. If rights are not checked,
// or the API server does not answer about them, the last finding about them holds. Returns an error if the node
// can not be examined.
func (a *app) findings(ctx context.Context, rights bool) (found []string, answered bool, kubelet probe.KubeletProcess, err error) {
	_, fault := cri.Locate(a.config.ContainerRuntimeEndpoint, a.config.HostRoot)
	o, err := examine.Options(a.watch.Config(), a.api, a.runtime, fault)
	if err != nil {
		return nil, false, kubelet, err
	}
	if !rights {
		o.Rights = nil
	}
	if a.apiPods != nil {
		o.Images = a.apiPods.hostImages
	}
	facts := probe.Node(ctx, o)
	if err := ctx.Err(); err != nil {
		return nil, false, kubelet, err
	}
	found = doctor.Errors(doctor.Examine(facts), nil)
	answered = rights && (facts.Server == nil || facts.Server.Denied.Known)
	if !answered && slices.Contains(a.arming.current().findings, missingRight) {
		found = append(found, missingRight)
	}
	return found, answered, probe.FindKubelet(o.ProcRoot, facts.Processes.Value), nil
}

// catchDisarmSignal catches SIGUSR1, which would end the process, from the start on.
func (a *app) catchDisarmSignal() {
	a.disarmSignals = make(chan os.Signal, 1)
	signal.Notify(a.disarmSignals, syscall.SIGUSR1)
	a.closers = append(a.closers, func() { signal.Stop(a.disarmSignals) })
}

// disarmFilePeriod is the interval between attempts to watch the directory of the disarm
// file. The next periodic check finds what is missed meanwhile, and so does the one before
// each act that can not be undone.
const disarmFilePeriod = time.Minute

// watchDisarmFile calls changed after every change of the disarm file, until ctx ends.
func watchDisarmFile(ctx context.Context, f disarmfile.File, changed func()) {
	if f == "" {
		return
	}
	repeat(ctx, disarmFilePeriod, func() bool {
		followDisarmFile(ctx, f, changed)
		return true
	})
}

// followDisarmFile returns when the directory does not exist (any more), or ctx ends.
func followDisarmFile(ctx context.Context, f disarmfile.File, changed func()) {
	dir := filepath.Dir(string(f))
	w, err := watchDirectory(dir)
	if err != nil {
		return
	}
	defer w.Close()
	changed() // in case it changed before
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
