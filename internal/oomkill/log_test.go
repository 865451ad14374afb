package oomkill_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/oomkill"
)

const (
	podA       = "/kubepods/burstable/pod0b6d0d7c-2b4e-4a51-9c8a-00000000000a"
	containerA = podA + "/4f1c5e"
	kib        = 1 << 10
	mib        = 1 << 20
)

var leak = oom{task: task{17448, 1000, "java", 64000, 1916, 12}, cgroup: containerA, limit: containerA, used: 65536, max: 65536, files: 2 * mib, cache: mib}

// summary returns a kill in a short form.
func summary(k oomkill.Kill) string {
	text := fmt.Sprintf("%d %q in %q at %q", k.Process.PID, k.Process.Name, k.TaskCgroup, k.LimitCgroup)
	if k.Partial {
		text += ", partial"
	}
	if k.Group {
		text += ", group"
	}
	if k.Cause != "" {
		text += ": " + k.Cause[:20]
	}
	return text
}

func TestLog_ReadsKill(t *testing.T) {
	for s := range styles {
		k := kernel{style: s, sequence: 4766, at: time.Hour}
		k.kill(leak)
		got := read(t, &oomkill.Log{}, k.records)
		want := []oomkill.Kill{{
			At: got[0].At, Process: oomkill.Process{PID: 17448, Name: "java", Anon: 64000 * kib},
			TaskCgroup: containerA, LimitCgroup: containerA,
			Used: signals.Of(signals.Bytes(64 * mib)), Limit: signals.Of(signals.Bytes(64 * mib)), Held: signals.Of(signals.Bytes(63 * mib)), FilesInMemory: signals.Of(signals.Bytes(2 * mib)),
		}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("style %d (-want +got):\n%s", s, diff)
		}
	}
}

func TestLog_ReadsPagesOfMachine(t *testing.T) {
	for _, within := range []string{
		"",
		"active_anon:0[77]: segfault at 0 ip 0 in x active_file:1 inactive_file:1 free:9 y[400000+1000]",
		"active_anon:0\n[77]: segfault at 0 ip 0 in active_file:1 inactive_file:1 free:9",
		"active_anon:1 inactive_anon:2 isolated_anon:0\n active_file:5",
	} {
		k := kernel{style: version2, at: time.Hour}
		k.kill(oom{task: task{pid: 7, name: "db"}, cgroup: containerA, free: 30, within: within})
		if got := read(t, &oomkill.Log{}, k.records)[0]; !got.PagesKnown || got.FreePages != 42 || got.Used.Known || got.Held.Known {
			t.Errorf("%q: %+v", within, got)
		}
	}
}

// quiet is a pod with nothing to hide; its names must appear only where its processes were killed.
const quiet = "/kubepods/podquiet/main"

// logged is a log, and the kills in it.
type logged struct {
	write func(k *kernel)
	want  []string
}

var (
	machine = oom{task: task{pid: 7, name: "db"}, cgroup: containerA}
	group   = oom{task: task{pid: 7, name: "sh"}, cgroup: containerA + "/inner", limit: podA, used: 9, max: 9, group: containerA,
		members: []task{{pid: 7, name: "sh"}, {pid: 8, name: "worker"}}}

	logs = map[string]logged{
		"machine": {func(k *kernel) { k.kill(machine) }, []string{`7 "db" in "` + containerA + `" at ""`}},
		"allocating task": {func(k *kernel) {
			o := machine
			o.head = "Out of memory (oom_kill_allocating_task)"
			k.kill(o)
		}, []string{`7 "db" in "` + containerA + `" at ""`}},
		"a part of the machine": {func(k *kernel) {
			o := machine
			o.constraint = "CONSTRAINT_CPUSET"
			k.kill(o)
		}, []string{`7 "db" in "` + containerA + `" at "", partial`}},
		"memory.oom.group": {func(k *kernel) { k.print("booted"); k.at += time.Minute; k.kill(group) }, []string{
			`7 "sh" in "` + containerA + `/inner" at "` + podA + `"`,
			`7 "sh" in "` + containerA + `" at "` + podA + `", group`, `8 "worker" in "` + containerA + `" at "` + podA + `", group`}},
		"memory.oom.group right after the start": {func(k *kernel) { k.kill(group) }, []string{
			`7 "sh" in "` + containerA + `/inner" at "` + podA + `"`,
			`7 "sh" in "" at "": the kernel's log has`, `8 "worker" in "" at "": the kernel's log has`}},
		"other lines in between": {func(k *kernel) {
			k.dump(leak)
			k.print("eth0: link up")
			k.print(k.scope(leak))
			k.write(30, "-", "a daemon wrote: Memory cgroup out of memory: Killed process 3 (x)")
			k.killed(leak, leak.task)
			k.print("oom_reaper: reaped process 17448 (java), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB")
		}, []string{`17448 "java" in "` + containerA + `" at "` + containerA + `"`}},
		"a line in two records": {func(k *kernel) {
			k.dump(leak)
			text := k.scope(leak)
			k.print(text[:100])
			k.write(6, "c", text[100:])
			k.killed(leak, leak.task)
		}, []string{`17448 "java" in "` + containerA + `" at "` + containerA + `"`}},
		"a line in two records with another one between": {func(k *kernel) {
			k.dump(leak)
			text := k.scope(leak)
			k.print(text[:100])
			k.write(14, "-", "a program")
			k.write(6, "c", text[100:])
			k.killed(leak, leak.task)
		}, []string{`17448 "java" in "" at "": the kernel's log has`}},
		"a line in two records, the second one truncated": {func(k *kernel) {
			k.dump(leak)
			text := k.scope(leak)
			k.print(text[:100])
			k.write(6, "c", text[100:])
			k.truncateLast()
			k.killed(leak, leak.task)
		}, []string{`17448 "java" in "" at "": the kernel's log has`}},
		"a truncated line about the group": {func(k *kernel) {
			k.print("booted")
			k.at += time.Minute
			o := group
			o.members = nil
			k.kill(o)
			k.truncateLast()
			k.killed(group, group.members[1])
		}, []string{`7 "sh" in "` + containerA + `/inner" at "` + podA + `"`, `8 "worker" in "" at "": the kernel's log has`}},
		"without the line about cgroups": {func(k *kernel) { k.killed(leak, leak.task) }, []string{`17448 "java" in "" at "": the kernel's log has`}},
		"another process than in the line about cgroups": {func(k *kernel) {
			k.print(k.scope(leak))
			k.killed(leak, task{pid: 17449, uid: 1000, name: "java"})
		}, []string{`17449 "java" in "" at "": the kernel's log has`}},
		"cgroup of an earlier kill": {func(k *kernel) {
			k.kill(leak)
			k.killed(leak, leak.task)
		}, []string{`17448 "java" in "` + containerA + `" at "` + containerA + `"`, `17448 "java" in "" at "": the kernel's log has`}},
		"another name in the line about cgroups": {func(k *kernel) {
			o := leak
			o.name = "x,task=java"
			k.print(k.scope(o))
			k.killed(leak, leak.task)
		}, []string{`17448 "java" in "" at "": the kernel's log has`}},
		"limit of a machine in a cgroup's kill": {func(k *kernel) {
			o := leak
			o.head = "Out of memory"
			k.kill(o)
		}, []string{`17448 "java" in "" at "": the kernel's log has`}},
		"unknown format": {func(k *kernel) {
			k.print(k.scope(leak))
			k.print("Memory cgroup out of memory: Killed process 17448 (java) rss:5MB")
		}, []string{`0 "" in "" at "": the kernel's log has`}},
		"no kill": {func(k *kernel) { k.dump(leak); k.print("Out of memory and no killable processes...") }, nil},
	}
)

func TestLog_KillsByText(t *testing.T) {
	for name, c := range logs {
		k := kernel{style: version2, at: time.Hour}
		c.write(&k)
		var got []string
		for _, kill := range read(t, &oomkill.Log{}, k.records) {
			got = append(got, summary(kill))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestLog_IgnoresProgramsText checks that a program with access to the log cannot report a kill: the
// kernel gives its records another facility.
func TestLog_IgnoresProgramsText(t *testing.T) {
	genuine := kernel{style: version2, at: time.Hour}
	genuine.kill(leak)
	for facility := 1; facility < 24; facility++ {
		k := kernel{style: version2, at: time.Hour}
		for _, record := range genuine.records {
			_, text, _ := strings.Cut(strings.TrimSuffix(record, "\n"), ";")
			k.write(facility<<3|6, "-", text)
		}
		if got := read(t, &oomkill.Log{}, k.records); len(got) != 0 {
			t.Errorf("facility %d: %v", facility, got)
		}
	}
	// Nor can it complete or replace a line of the kernel.
	forged := leak
	forged.cgroup, forged.limit = quiet, quiet
	k := kernel{style: version2, at: time.Hour}
	k.dump(leak)
	k.print(k.scope(leak))
	k.write(14, "-", k.scope(forged))
	k.write(14, "c", ",task_memcg="+quiet)
	k.killed(leak, leak.task)
	if got := read(t, &oomkill.Log{}, k.records); len(got) != 1 || got[0].TaskCgroup != containerA {
		t.Errorf("%+v", got)
	}
}

// TestLog_HostileNames checks names that resemble the kernel's text. A name of a process has at most 15
// bytes, that of a cgroup 255; both can contain nearly anything.
func TestLog_HostileNames(t *testing.T) {
	names := []string{"", " ", ",pid=1,uid=0", ",task=x,pid=17", ") total-vm:1kB", "(x) (y)", "a\nb", "\\x0a", "oom-kill:constr", "Killed process ", ",task_memcg=/q", ",oom_memcg=/q",
		",global_oom", "\x00\x01\xff", "Tasks in /x are", "memory: usage 1"}
	for _, name := range names {
		o := leak
		o.name = name
		k := kernel{style: version2, at: time.Hour}
		k.kill(o)
		got := read(t, &oomkill.Log{}, k.records)
		if len(got) != 1 || got[0].Process.PID != o.pid {
			t.Fatalf("%q: %+v", name, got)
		}
		if got[0].TaskCgroup != containerA || got[0].LimitCgroup != containerA || got[0].Cause != "" {
			t.Errorf("%q: %+v", name, got[0])
		}
	}
	for _, inside := range append(names, ",task_memcg="+strings.ReplaceAll(quiet, "/", "!"), "x,global_oom,task_memcg=", ",oom_memcg=!kubepods,task_memcg=!kubepods!podquiet,task=java,pid=17448,uid=1000") {
		inside = strings.NewReplacer("/", "!", "\n", "n", "\x00", "0").Replace(inside) // not permitted in names of cgroups
		o := leak
		o.cgroup = containerA + "/" + inside
		k := kernel{style: version2, at: time.Hour}
		k.kill(o)
		got := read(t, &oomkill.Log{}, k.records)
		if len(got) != 1 || got[0].TaskCgroup != o.cgroup && got[0].TaskCgroup != "" || got[0].TaskCgroup == "" && got[0].Cause == "" {
			t.Errorf("cgroup %q: %+v", inside, got)
		}
	}
}

// deep returns a path of n characters in names of at most 255.
func deep(c string, n int) (path string) {
	for ; n > 0; n -= 255 {
		path += "/" + strings.Repeat(c, min(n, 255))
	}
	return path
}

// TestLog_HostilePaths checks paths that make the kernel truncate a record, or continue it in another one, right
// before or within a key. A name then has the only key in the text. With 468 escaped bytes in the path of the
// limit, the first record ends within the key of the process's cgroup, and the second one is complete. With a
// long escaped name at its end, a truncated record has a newline. With a line of another CPU in between, the log
// has the rest of the line later.
func TestLog_HostilePaths(t *testing.T) {
	for n := 0; n < 850; n += 4 {
		for _, c := range []string{"y", "\x7f"} {
			long := containerA + deep(c, n)
			forged := long + "/x,task_memcg=" + quiet
			complete := forged + ",task=java,pid=17448,uid=1000"
			for _, paths := range [][2]string{ // of the limit and of the process
				{long, forged},
				{complete, complete},
				{containerA, long},
				{containerA, long + deep("\x7f", 200) + deep("\x7f", 255)},
			} {
				o := leak
				o.limit, o.cgroup = paths[0], paths[1]
				if len(o.cgroup) > maxText { // the record has only the beginning of the path, without a sign of it
					continue
				}
				for _, shared := range []bool{false, true} {
					k := kernel{style: version2, shared: shared, at: time.Hour}
					k.kill(o)
					got := read(t, &oomkill.Log{}, k.records)
					if len(got) != 1 || got[0].Process.PID != o.pid {
						t.Fatalf("%d times %q: %+v", n, c, got)
					}
					known := got[0].TaskCgroup == o.cgroup && got[0].LimitCgroup == o.limit && got[0].Cause == ""
					unknown := got[0].TaskCgroup == "" && got[0].LimitCgroup == "" && strings.Contains(got[0].Cause, "ambiguous")
					if !known && !unknown {
						t.Errorf("%d times %q, shared log: %t: %+v", n, c, shared, got[0])
					}
				}
			}
		}
	}
}

// TestLog_TruncatedRecords checks that a record without its end makes parts of the answer unknown, and none wrong.
func TestLog_TruncatedRecords(t *testing.T) {
	known := func(m signals.Measured[signals.Bytes], want signals.Bytes) bool { return !m.Known || m.Value == want }
	for s := range styles {
		k := kernel{style: s, at: time.Hour}
		k.kill(leak)
		for i, record := range k.records {
			records := slices.Clone(k.records)
			records[i] = record[:len(record)-2] // without the last character and the newline
			all := read(t, &oomkill.Log{}, records)
			if len(all) != 1 {
				t.Fatalf("style %d, record %d: %+v", s, i, all)
			}
			got := all[0]
			if needed := i >= len(records)-2; needed != (got.Cause != "") || needed != (got.TaskCgroup == "") || got.TaskCgroup != "" && got.TaskCgroup != containerA {
				t.Errorf("style %d, record %d: %+v", s, i, got)
			}
			if !known(got.Used, 64*mib) || !known(got.Limit, 64*mib) || !known(got.Held, 63*mib) || !known(got.FilesInMemory, 2*mib) {
				t.Errorf("style %d, amounts of record %d: %+v", s, i, got)
			}
		}
	}
}

// TestLog_LinesOfOthersWithinReport checks that amounts are not those of a line with the name of a crashed
// process, which may contain newlines, or with a prefix of the packet filter.
func TestLog_LinesOfOthersWithinReport(t *testing.T) {
	for s := range styles {
		for _, within := range []string{"\nactive_file 9\n[99]: segfault at 0 ip 0", "anon 1\nshmem 9\n[99]: segfault at 0 ip 0", "memory: usage 1kB, limit 1kB, failcnt IN=eth0"} {
			o := leak
			o.within = within
			k := kernel{style: s, at: time.Hour}
			k.kill(o)
			got := read(t, &oomkill.Log{}, k.records)[0]
			if got.TaskCgroup != containerA || got.Held.Known && got.Held.Value != 63*mib || got.FilesInMemory.Value != 2*mib || got.Limit.Known && got.Limit.Value != 64*mib {
				t.Errorf("style %d, %q: %+v", s, within, got)
			}
		}
	}
}

func TestLog_Gaps(t *testing.T) {
	k := kernel{style: version2, at: time.Hour}
	k.print("booted")
	k.kill(leak)
	for lost := range k.records[:len(k.records)-1] {
		var l oomkill.Log
		got := read(t, &l, append(append([]string{}, k.records[:lost]...), k.records[lost+1:]...))
		complete := lost < len(k.records)-2 // the line about cgroups is there, and nothing is lost after it
		if len(got) != 1 || (got[0].TaskCgroup != "") != complete || got[0].TaskCgroup != "" && got[0].TaskCgroup != containerA {
			t.Errorf("without record %d: %+v", lost, got)
		}
	}
	var l oomkill.Log
	half := len(k.records) - 1
	read(t, &l, k.records[:half])
	l.Lose()
	if got := read(t, &l, k.records[half:]); len(got) != 1 || got[0].TaskCgroup != "" || !strings.Contains(got[0].Cause, "lost") {
		t.Errorf("after a loss: %+v", got)
	}
}

// TestLog_SuppressedLines checks that a kill without its line about cgroups is not attributed to the
// cgroup that is being killed before it.
func TestLog_SuppressedLines(t *testing.T) {
	group := leak
	group.group = containerA
	k := kernel{style: version2, at: time.Hour}
	k.print("booted")
	k.at += time.Minute
	for range 10 {
		k.kill(group)
	}
	other := oom{task: task{pid: 9, name: "db"}, cgroup: quiet, limit: quiet}
	k.kill(other)
	got := read(t, &oomkill.Log{}, k.records)
	if last := got[len(got)-1]; last.Process.PID != 9 || last.TaskCgroup != "" || last.Group {
		t.Errorf("%+v", last)
	}
	k.at += 7 * time.Second
	k.kill(other)
	got = read(t, &oomkill.Log{}, k.records)
	if last := got[len(got)-1]; last.TaskCgroup != quiet {
		t.Errorf("later: %+v", last)
	}
}

func TestParseRecord_Format(t *testing.T) {
	almost := strings.Repeat("x", maxRecord-len("8,1,2,-;")-2) + "\n" // leaves one byte of the buffer free
	for text, want := range map[string]oomkill.Record{
		"6,339,5140900,-;NET: Registered protocol family 10\n": {Sequence: 339, At: 5140900 * time.Microsecond, Kernel: true, Text: "NET: Registered protocol family 10"},
		"30,340,5690716,-;udevd[80]: starting version 181\n":   {Sequence: 340, At: 5690716 * time.Microsecond, Text: "udevd[80]: starting version 181"},
		"4,1,2,c;rest\n": {Sequence: 1, At: 2 * time.Microsecond, Kernel: true, Continues: true, Text: "rest"},
		"7,160,424069,-,caller=T1;pci_root PNP0A03:00\n SUBSYSTEM=acpi\n DEVICE=+x": {Sequence: 160, At: 424069 * time.Microsecond, Kernel: true, Text: "pci_root PNP0A03:00"},
		"8,1,2,-;x;y":       {Sequence: 1, At: 2 * time.Microsecond, Text: "x;y", Truncated: true},
		"8,1,2,-;":          {Sequence: 1, At: 2 * time.Microsecond, Truncated: true},
		"8,1,2,-;" + almost: {Sequence: 1, At: 2 * time.Microsecond, Text: strings.TrimSuffix(almost, "\n")},
		// An escaped byte may be missing before the newline.
		"8,1,2,-;x" + almost: {Sequence: 1, At: 2 * time.Microsecond, Text: "x" + strings.TrimSuffix(almost, "\n"), Truncated: true},
	} {
		if got, ok := oomkill.ParseRecord(text); !ok || got != want {
			t.Errorf("%q: %+v, %t", text, got, ok)
		}
	}
	for _, text := range []string{"", "x", "6,1,2;x", "6,1,2,-", "6,1,-2,-;x", "+6,1,2,-;x", "6,18446744073709551616,2,-;x", "6,1,99999999999999999,-;x", "6,1,2,;x", "6,1,2,--;x"} {
		if got, ok := oomkill.ParseRecord(text); ok {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

// FuzzLog checks that no text makes the log fail, or report a cgroup without a line of the kernel.
func FuzzLog(f *testing.F) {
	for s := range styles {
		k := kernel{style: s, at: time.Hour}
		k.kill(leak)
		f.Add(strings.Join(k.records, ""))
	}
	f.Add("6,1,2,-;oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/,task=,pid=1,uid=0\n3,2,3,-;Out of memory: Killed process 1 () total-vm:1kB, anon-rss:1kB, file-rss:1kB, shmem-rss:1kB, UID:0 pgtables:1kB oom_score_adj:0\n")
	f.Fuzz(func(t *testing.T, text string) {
		var l oomkill.Log
		for line := range strings.Lines(text) {
			r, ok := oomkill.ParseRecord(line)
			if !ok {
				continue
			}
			k, killed := l.Add(r)
			switch {
			case !killed:
			case k.TaskCgroup != "" && !strings.HasPrefix(k.TaskCgroup, "/"), k.LimitCgroup != "" && k.TaskCgroup == "":
				t.Errorf("%q: %+v", line, k)
			case (k.TaskCgroup == "") != (k.Cause != ""), k.Process.Anon < 0, k.Used.Value < 0, k.Limit.Value < 0:
				t.Errorf("%q: %+v", line, k)
			case k.TaskCgroup != "" && !k.Group && !strings.Contains(text, "oom-kill:constraint="):
				t.Errorf("%q: a cgroup from nowhere: %+v", text, k)
			}
		}
	})
}
