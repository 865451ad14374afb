package stats

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cri"
)

// disk is a host with the directories of pods, and no pod yet.
type disk struct {
	t    testing.TB
	root string
}

func newDisk(t testing.TB) disk {
	t.Helper()
	d := disk{t, t.TempDir()}
	for _, dir := range []string{"var/lib/kubelet/pods", "var/log/pods"} {
		if err := os.MkdirAll(filepath.Join(d.root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// pod creates a pod with a container and an emptyDir.
func (d disk) pod(uid string) signals.Pod {
	d.t.Helper()
	p := signals.Pod{
		UID: uid, Namespace: "ns", Name: "pod-" + uid,
		Containers: []signals.Container{{Name: "app", ID: "id-" + uid}},
		Volumes:    []signals.Volume{{Name: "cache", Local: true, Directory: "kubernetes.io~empty-dir/cache"}},
	}
	for _, dir := range []string{d.logs(uid), d.volume(uid)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			d.t.Fatal(err)
		}
	}
	return p
}

func (d disk) logs(uid string) string {
	return d.root + "/var/log/pods/ns_pod-" + uid + "_" + uid + "/app"
}
func (d disk) own(uid string) string { return d.root + "/var/lib/kubelet/pods/" + uid }
func (d disk) volume(uid string) string {
	return d.own(uid) + "/volumes/kubernetes.io~empty-dir/cache"
}

func (d disk) open(o DirectoryOptions) *Directories {
	o.HostRoot = d.root
	if o.PodTime == 0 { // walks run at low priority and may take long on a busy machine
		o.PodTime, o.RoundTime = time.Minute, time.Minute
		o.HostTime, o.HostRoundTime = time.Minute, time.Minute
	}
	return OpenDirectories(o)
}

func measure(t testing.TB, d *Directories, pods ...signals.Pod) {
	t.Helper()
	if err := d.Measure(t.Context(), pods); err != nil {
		t.Fatal(err)
	}
}

// merged returns the merged usage of a candidate without a usage.
func merged(d *Directories, p *signals.Pod) *signals.Usage {
	c := []signals.Candidate{{Pod: p}}
	d.Merge(c)
	return c[0].Usage
}

// du returns the bytes and the inodes of directories according to du.
func du(t *testing.T, dirs ...string) (bytes, inodes int64) {
	t.Helper()
	for flag, into := range map[string]*int64{"--block-size=1": &bytes, "--inodes": &inodes} {
		out, err := exec.Command("du", append([]string{"--summarize", "--total", "--one-file-system", flag}, dirs...)...).Output()
		if err != nil {
			t.Fatalf("du: %v: %s", err, out)
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		total, _, _ := strings.Cut(lines[len(lines)-1], "\t")
		if *into, err = strconv.ParseInt(total, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	return bytes, inodes
}

func fill(t testing.TB, dir string) {
	t.Helper()
	for i := range 40 {
		writeFile(t, fmt.Sprint(dir, "/", i%4, "/", i%3, "/file", i), i*1000)
	}
	sparse := dir + "/sparse"
	writeFile(t, sparse, 10)
	loop := dir + "/0/loop"
	if err := errors.Join(
		os.Truncate(sparse, 1<<30),
		os.Link(dir+"/0/0/file0", dir+"/hard"), os.Link(dir+"/3/0/file39", dir+"/0/hard"), os.Link(dir+"/3/0/file39", dir+"/0/hard2"),
		os.Symlink("..", loop), os.Symlink("/", dir+"/out"), os.Symlink("nowhere", dir+"/dangling"),
		unix.Mkfifo(dir+"/fifo", 0o600), os.WriteFile(dir+"/\xff\n name", []byte("x"), 0o600),
		os.Mkdir(dir+"/...", 0o700),
	); err != nil {
		t.Fatal(err)
	}
}

func TestDirectories_CountsLikeDu(t *testing.T) {
	host := newDisk(t)
	p := host.pod("u1")
	fill(t, host.volume("u1"))
	fill(t, host.logs("u1"))
	writeFile(t, host.own("u1")+"/etc-hosts", 300)
	writeFile(t, host.own("u1")+"/containers/app/0a1b", 5000)
	d := host.open(DirectoryOptions{})
	measure(t, d, p)
	u := merged(d, &p)
	wantVolume, wantInodes := du(t, host.volume("u1"))
	if v := u.Volume("cache"); v.Bytes != signals.Of(signals.Bytes(wantVolume)) || v.Inodes != signals.Of(signals.Inodes(wantInodes)) {
		t.Errorf("volume %+v, du reports %d bytes, %d inodes", v, wantVolume, wantInodes)
	}
	wantLogs, wantInodes := du(t, host.logs("u1"))
	if k := u.Containers[0]; k.Name != "app" || k.Logs.Bytes != signals.Of(signals.Bytes(wantLogs)) || k.Logs.Inodes != signals.Of(signals.Inodes(wantInodes)) || k.Rootfs.Bytes.Known {
		t.Errorf("container %+v, du reports %d bytes, %d inodes", k, wantLogs, wantInodes)
	}
	total, _ := du(t, host.volume("u1"), host.logs("u1"), host.own("u1")+"/etc-hosts", host.own("u1")+"/containers")
	if u.EphemeralStorage != signals.Of(signals.Bytes(total)) {
		t.Errorf("ephemeral storage %+v, du reports %d", u.EphemeralStorage, total)
	}
}

// TestDirectories_CountsHardLinksOnce checks that a file with a name in each of two volumes
// counts once.
func TestDirectories_CountsHardLinksOnce(t *testing.T) {
	host := newDisk(t)
	p := host.pod("u1")
	p.Volumes = append(p.Volumes, signals.Volume{Name: "b", Local: true, Directory: "kubernetes.io~empty-dir/b"})
	second := filepath.Dir(host.volume("u1")) + "/b"
	writeFile(t, host.volume("u1")+"/file", 1<<20)
	if err := errors.Join(os.Mkdir(second, 0o755), os.Link(host.volume("u1")+"/file", second+"/file")); err != nil {
		t.Fatal(err)
	}
	d := host.open(DirectoryOptions{})
	measure(t, d, p)
	want, _ := du(t, host.volume("u1"), second, host.logs("u1"))
	if u := merged(d, &p); u.EphemeralStorage != signals.Of(signals.Bytes(want)) {
		t.Errorf("%+v, want %d", u, want)
	}
	other := host.pod("u2") // links are remembered per pod
	if err := os.Link(second+"/file", host.volume("u2")+"/file"); err != nil {
		t.Fatal(err)
	}
	measure(t, d, p, other)
	for _, pod := range []*signals.Pod{&p, &other} {
		if u := merged(d, pod); u.EphemeralStorage.Value < 1<<20 {
			t.Errorf("%s: %+v", pod.Name, u)
		}
	}
}

func TestMerge_CopiesUsage(t *testing.T) {
	host := newDisk(t)
	known, noUsage, unknown := host.pod("u1"), host.pod("u2"), signals.Pod{UID: "u3", Namespace: "ns", Name: "gone"}
	layers := []cri.ContainerStats{{ID: "id-u1", WritableBytes: cri.Used{Value: 7000, Known: true}, WritableInodes: cri.Used{Value: 7, Known: true}}, {ID: "id-u2"}, {ID: ""}}
	d := host.open(DirectoryOptions{Layers: func(context.Context) ([]cri.ContainerStats, error) { return layers, nil }})
	original := func() *signals.Usage {
		return &signals.Usage{Time: noon, Memory: signals.Of[signals.Bytes](5), Containers: []signals.ContainerUsage{{Name: "pause"}, {Name: "id-u1", Memory: signals.Of[signals.Bytes](4)}}}
	}
	usage := original()
	candidates := []signals.Candidate{{Pod: &known, Usage: usage}, {Pod: &noUsage}, {Pod: &unknown, Usage: usage}, {Pod: &unknown}}
	d.Merge(candidates)
	if candidates[0].Usage != usage || candidates[1].Usage != nil {
		t.Fatal("merged before the first measurement")
	}
	measure(t, d, known, noUsage, unknown)
	d.Merge(candidates)
	if diff := cmp.Diff(original(), usage); diff != "" {
		t.Errorf("the original usage was changed: %s", diff)
	}
	if candidates[2].Usage != usage || candidates[3].Usage != nil {
		t.Error("a pod without a measurement has another usage")
	}
	got := candidates[0].Usage
	k := got.Container(&known.Containers[0])
	if got.Time != noon || got.Memory.Value != 5 || len(got.Containers) != 2 || k.Name != "id-u1" || k.Memory.Value != 4 ||
		k.Rootfs.Bytes != signals.Of[signals.Bytes](7000) || k.Rootfs.Inodes != signals.Of[signals.Inodes](7) || !k.Logs.Bytes.Known {
		t.Errorf("merged: %+v", got)
	}
	if sum := 7000 + k.Logs.Bytes.Value + got.Volume("cache").Bytes.Value; got.EphemeralStorage != signals.Of(sum) {
		t.Errorf("ephemeral storage %+v, want %d", got.EphemeralStorage, sum)
	}
	if u := candidates[1].Usage; u == nil || u.Memory.Known || u.Container(&noUsage.Containers[0]).Rootfs.Bytes.Known || !u.EphemeralStorage.Known {
		t.Errorf("pod without a usage: %+v", u)
	}
	d.Merge(candidates) // again, into the previous result
	if diff := cmp.Diff(got, candidates[0].Usage); diff != "" {
		t.Errorf("merged twice: %s", diff)
	}
	d.options.MaxAge = 1
	if _, ok := d.Age("u1"); merged(d, &known) != nil || ok {
		t.Error("an expired measurement is in use")
	}
}

// TestDirectories_KeepsThread: a round needs no new thread, which the kernel refuses on a node without
// PIDs.
func TestDirectories_KeepsThread(t *testing.T) {
	host := newDisk(t)
	pods := []signals.Pod{host.pod("u1"), host.pod("u2")}
	d := host.open(DirectoryOptions{})
	var first *walking
	for i := range 3 {
		if err := d.Measure(t.Context(), pods); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = d.idle[0]
		}
		if len(d.idle) != 1 || d.idle[0] != first {
			t.Errorf("round %d: another thread", i)
		}
	}
}

// TestDirectories_UsesLastLayersWithoutRuntime checks that the last answer of a runtime counts
// until it expires.
func TestDirectories_UsesLastLayersWithoutRuntime(t *testing.T) {
	host := newDisk(t)
	p := host.pod("u1")
	var fault error
	d := host.open(DirectoryOptions{Layers: func(context.Context) ([]cri.ContainerStats, error) {
		return []cri.ContainerStats{{ID: "id-u1", WritableBytes: cri.Used{Value: 7000, Known: true}}}, fault
	}})
	measure(t, d, p)
	fault = errors.New("connection refused")
	if err := d.Measure(t.Context(), []signals.Pod{p}); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("%v", err)
	}
	if k := merged(d, &p).Containers[0]; k.Rootfs.Bytes.Value != 7000 || !k.Logs.Bytes.Known {
		t.Errorf("%+v", k)
	}
}

// TestDirectories_ReportsLowerBoundAboveMaxEntries checks that a pod with more entries than are
// counted has a lower bound.
func TestDirectories_ReportsLowerBoundAboveMaxEntries(t *testing.T) {
	if !inPrivateMounts(t) {
		return
	}
	host := newDisk(t)
	p := host.pod("u1")
	tmpfs(t, host.volume("u1"), "nr_inodes=0")
	const files = 100_000
	emptyFiles(t, host.volume("u1"), files)
	for _, tc := range []struct{ entries, want int }{{20_000, 20_001}, {0, files + 1}, {50_000, files + 1}} {
		d := host.open(DirectoryOptions{Entries: tc.entries})
		if tc.entries == 50_000 {
			d = host.open(DirectoryOptions{})
			measure(t, d, p)
			d.options.Entries = tc.entries
		}
		err := d.Measure(t.Context(), []signals.Pod{p})
		if short := tc.entries != 0; short != (err != nil) || short && !strings.Contains(err.Error(), "more entries") {
			t.Errorf("%d entries: %v", tc.entries, err)
		}
		if v := merged(d, &p).Volume("cache"); v.Inodes != signals.Of(signals.Inodes(tc.want)) {
			t.Errorf("%d entries: %+v, want %d", tc.entries, v, tc.want)
		}
	}
}

// TestDirectories_ResumesWalk checks that a walk cut short resumes in the next round until
// every file is counted once. This includes hard links, and files removed at the position of
// the stop.
func TestDirectories_ResumesWalk(t *testing.T) {
	host := newDisk(t)
	p, other := host.pod("u1"), host.pod("u2")
	at := host.volume("u1")
	fill(t, at)
	for i := range 5 {
		dir := fmt.Sprint(at, "/many", i, "/deep")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		emptyFiles(t, dir, 100)
	}
	writeFile(t, at+"/many3/deep/hog", 8<<20)
	writeFile(t, host.logs("u1")+"/log", 1<<20)
	bytes, inodes := du(t, at)
	d := host.open(DirectoryOptions{Entries: 70})
	var last signals.FilesystemUsage
	rounds := 0
	for ; ; rounds++ {
		err := d.Measure(t.Context(), []signals.Pod{p, other})
		v := merged(d, &p).Volume("cache")
		if v == nil {
			continue // the logs come first
		}
		if v.Inodes.Value < last.Inodes.Value || v.Inodes.Value > signals.Inodes(inodes) || v.Bytes.Value > signals.Bytes(bytes) {
			t.Fatalf("round %d: %+v after %+v, du reports %d bytes, %d inodes", rounds, v, last, bytes, inodes)
		}
		last = v.FilesystemUsage
		if err == nil {
			break
		}
		if v.Incomplete != errEntries.Error() || !strings.Contains(err.Error(), "1 of 2") {
			t.Fatalf("round %d: %+v, %v", rounds, v, err)
		}
		if rounds == 100 {
			t.Fatal("the walk is incomplete after 100 rounds")
		}
	}
	if last.Inodes.Value != signals.Inodes(inodes) || last.Bytes.Value != signals.Bytes(bytes) || last.Incomplete != "" || rounds < 7 {
		t.Errorf("%+v after %d rounds, du reports %d bytes, %d inodes", last, rounds, bytes, inodes)
	}
	if err := os.RemoveAll(at + "/many3"); err != nil {
		t.Fatal(err)
	}
	bytes, inodes = du(t, at)
	for range rounds + 1 {
		_ = d.Measure(t.Context(), []signals.Pod{p, other})
	}
	if v := merged(d, &p).Volume("cache"); v.Inodes.Value != signals.Inodes(inodes) || v.Bytes.Value != signals.Bytes(bytes) {
		t.Errorf("restarted walk: %+v, du reports %d bytes, %d inodes", v, bytes, inodes)
	}
}

// TestDirectories_DepthIsUncountable checks that files below the maximum depth are counted by
// no round and reported as uncountable. The report remains while a later walk has not reached
// that depth again, or has counted less. A complete walk without such depth ends the report.
func TestDirectories_DepthIsUncountable(t *testing.T) {
	host := newDisk(t)
	p := host.pod("u1")
	at := host.volume("u1")
	writeFile(t, at+"/file", 1<<20)
	d := host.open(DirectoryOptions{})
	measure(t, d, p)
	if err := os.Remove(at + "/file"); err != nil {
		t.Fatal(err)
	}
	deep := at + strings.Repeat("/d", maxDepth+1)
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	emptyFiles(t, at, 50)
	writeFile(t, deep+"/hog", 8<<20)
	check := func(when string, uncountable bool, part string) {
		t.Helper()
		if v := merged(d, &p).Volume("cache"); v.Uncountable != uncountable || !strings.Contains(v.Incomplete, part) || (v.Incomplete == "") == uncountable {
			t.Errorf("%s: %+v", when, v)
		}
	}
	_ = d.Measure(t.Context(), []signals.Pod{p})
	check("smaller count than before", true, errDepth.Error())
	writeFile(t, at+"/more", 2<<20)
	d.options.Entries = 80
	_ = d.Measure(t.Context(), []signals.Pod{p})
	check("resumed walk", true, errDepth.Error())
	if err := os.RemoveAll(at + "/d"); err != nil {
		t.Fatal(err)
	}
	d.options.Entries = 1 << 20
	measure(t, d, p)
	check("removed directory", false, "")
}

// TestDirectories_LinksAreUncountable checks that an excess of hard-linked files is uncountable
// in every round.
func TestDirectories_LinksAreUncountable(t *testing.T) {
	host := newDisk(t)
	p := host.pod("u1")
	writeFile(t, host.volume("u1")+"/file", 1)
	if err := os.Link(host.volume("u1")+"/file", host.volume("u1")+"/name"); err != nil {
		t.Fatal(err)
	}
	d := host.open(DirectoryOptions{})
	for i, tried := range d.plan([]signals.Pod{p}) {
		tops, err := d.openTops()
		if err != nil {
			t.Fatal(i, err)
		}
		defer tops.close()
		tried.lap = &lap{begun: time.Now(), nolinks: true}
		m, _ := d.measurePod(&walker{ctx: t.Context(), links: map[link]struct{}{}}, tops, &tried, func(string) {})
		d.publish("u1", m)
	}
	if v := merged(d, &p).Volume("cache"); !v.Uncountable || v.Incomplete != errLinks.Error() {
		t.Errorf("%+v", v)
	}
	d = host.open(DirectoryOptions{Entries: 1})
	_ = d.Measure(t.Context(), []signals.Pod{p})
	if v := merged(d, &p).Volume("cache"); v != nil && v.Uncountable {
		t.Errorf("resumed walk: %+v", v)
	}
}

// TestDirectories_CountsFilesFirst checks that files are counted before the contents of sibling
// directories.
func TestDirectories_CountsFilesFirst(t *testing.T) {
	host := newDisk(t)
	p := host.pod("u1")
	for i := range 20 {
		dir := fmt.Sprint(host.volume("u1"), "/", i)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		emptyFiles(t, dir, 20)
	}
	writeFile(t, host.volume("u1")+"/hog", 8<<20)
	d := host.open(DirectoryOptions{Entries: 5})
	if err := d.Measure(t.Context(), []signals.Pod{p}); err == nil {
		t.Fatal("got no error for an incomplete walk")
	}
	if v := merged(d, &p).Volume("cache"); v.Bytes.Value < 8<<20 || v.Incomplete == "" {
		t.Errorf("%+v", v)
	}
}

func emptyFiles(t testing.TB, dir string, n int) {
	t.Helper()
	for i := range n {
		if err := unix.Mknod(fmt.Sprint(dir, "/", i), unix.S_IFREG|0o600, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDirectories_RetainsPreviousMeasurement checks that an unfinished directory retains its
// previous measurement with its age. Without a previous one it is unknown, not 0.
func TestDirectories_RetainsPreviousMeasurement(t *testing.T) {
	host := newDisk(t)
	p, fresh := host.pod("u1"), host.pod("u2")
	writeFile(t, host.volume("u1")+"/file", 1<<20)
	d := host.open(DirectoryOptions{})
	measure(t, d, p)
	before := merged(d, &p)
	writeFile(t, host.volume("u1")+"/more", 1<<20)
	old, _ := d.Age("u1")
	d.options.PodTime, d.endWait = 1, time.Minute
	err := d.Measure(t.Context(), []signals.Pod{p, fresh})
	if err == nil || !strings.Contains(err.Error(), "2 of 2 not completely") || !strings.Contains(err.Error(), "ns/pod-u2") || !strings.Contains(err.Error(), "time is over") {
		t.Errorf("%v", err)
	}
	if u := merged(d, &p); u.EphemeralStorage != before.EphemeralStorage {
		t.Errorf("%+v, want %+v", u.EphemeralStorage, before.EphemeralStorage)
	}
	if age, ok := d.Age("u1"); !ok || age <= old {
		t.Errorf("age %s, %t, was %s", age, ok, old)
	}
	if _, ok := d.Age("u2"); ok || merged(d, &fresh) != nil {
		t.Error("a pod without a measurement has a usage")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d.options.PodTime = time.Minute
	if err := d.Measure(ctx, []signals.Pod{fresh}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestPlan_OrdersByLastAttempt checks that pods with incomplete walks do not starve the others.
func TestPlan_OrdersByLastAttempt(t *testing.T) {
	host := newDisk(t)
	a, b, c := host.pod("a"), host.pod("b"), host.pod("c")
	d := host.open(DirectoryOptions{Entries: 1})
	emptyFiles(t, host.volume("a"), 5)
	order := func() (uids []string) {
		for _, t := range d.plan([]signals.Pod{a, b, c}) {
			uids = append(uids, t.uid)
		}
		return uids
	}
	if err := d.Measure(t.Context(), []signals.Pod{b, a}); err == nil {
		t.Fatal("got no error for an incomplete walk")
	}
	if got := order(); !slices.Equal(got, []string{"c", "b", "a"}) {
		t.Errorf("order %v", got)
	}
	measure(t, d, c, b)
	if got := order(); !slices.Equal(got, []string{"a", "c", "b"}) {
		t.Errorf("order %v", got)
	}
	d.options.MaxAge = 1
	measure(t, d)
	if len(d.pods) != 0 {
		t.Errorf("got %d pods, want ended pods to be dropped", len(d.pods))
	}
}

// TestDirectories_IgnoresPathsOutsideOfPod covers names that lead outside of a pod's
// directories, and missing directories.
func TestDirectories_IgnoresPathsOutsideOfPod(t *testing.T) {
	host := newDisk(t)
	p := host.pod("u1")
	p.Volumes = append(p.Volumes, signals.Volume{Name: "host", Local: true},
		signals.Volume{Name: "up", Local: true, Directory: "../../../log"},
		signals.Volume{Name: "link", Local: true, Directory: "kubernetes.io~empty-dir/link"},
		signals.Volume{Name: "through", Local: true, Directory: "kubernetes.io~empty-dir/link/log"},
		signals.Volume{Name: "absent", Local: true, Directory: "kubernetes.io~empty-dir/absent"},
		signals.Volume{Name: "secret", Directory: "kubernetes.io~secret/secret"})
	if err := os.Symlink("/var", filepath.Dir(host.volume("u1"))+"/link"); err != nil {
		t.Fatal(err)
	}
	for _, uid := range []string{"", ".", "..", "../u1", "u1/"} {
		escaped := p
		if escaped.UID = uid; len(locations(&escaped)) != 0 {
			t.Errorf("uid %q: %v", uid, locations(&escaped))
		}
	}
	d := host.open(DirectoryOptions{})
	if err := d.Measure(t.Context(), []signals.Pod{p}); err == nil || !strings.Contains(err.Error(), "symbolic link") && !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("link at a volume's path: %v", err)
	}
	if u := merged(d, &p); len(u.Volumes) != 1 || u.Volumes[0].Name != "cache" {
		t.Errorf("volumes %+v", u.Volumes)
	}
	nowhere := host.open(DirectoryOptions{KubeletRoot: "/nowhere"})
	if err := nowhere.Measure(t.Context(), []signals.Pod{p}); err == nil || !strings.Contains(err.Error(), "/nowhere/pods: no such file or directory: check the path") {
		t.Errorf("%v", err)
	}
	if u := merged(nowhere, &p); u == nil || len(u.Volumes) != 0 || !u.Containers[0].Logs.Bytes.Known {
		t.Errorf("without the kubelet's directory: %+v", u)
	}
}
