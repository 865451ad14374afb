package cgroup

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/containerd/cgroups/v3"
	"github.com/google/go-cmp/cmp"
)

func TestParseSingleValue_AcceptsOnlyUnsignedNumbers(t *testing.T) {
	for text, want := range map[string]uint64{
		"0\n":                    0,
		"501506048\n":            501506048,
		"7":                      7,
		"18446744073709551615\n": math.MaxUint64,
	} {
		if got, err := ParseSingleValue([]byte(text)); err != nil || got != want {
			t.Errorf("ParseSingleValue(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "\n", "max\n", "-1\n", "1 2\n", "0x10\n", "18446744073709551616\n", "5\n\n"} {
		if got, err := ParseSingleValue([]byte(text)); err == nil {
			t.Errorf("ParseSingleValue(%q) = %d, want an error", text, got)
		}
	}
}

func TestParseLimit_DistinguishesLimitFromUnlimited(t *testing.T) {
	for _, c := range []struct {
		text    string
		limit   uint64
		limited bool
	}{
		{"max\n", 0, false},
		{"9223372036854771712\n", 0, false}, // v1 with pages of 4 KiB
		{"9223372036854710272\n", 0, false}, // v1 with pages of 64 KiB
		{"4611686018427387904\n", 1 << 62, true},
		{"1073741824\n", 1 << 30, true},
		{"0\n", 0, true},
	} {
		limit, limited, err := ParseLimit([]byte(c.text))
		if err != nil || limit != c.limit || limited != c.limited {
			t.Errorf("ParseLimit(%q) = %d, %t, %v, want %d, %t", c.text, limit, limited, err, c.limit, c.limited)
		}
	}
	for _, text := range []string{"", "maximum\n", "-1\n", "1Gi\n"} {
		if limit, limited, err := ParseLimit([]byte(text)); err == nil {
			t.Errorf("ParseLimit(%q) = %d, %t, want an error", text, limit, limited)
		}
	}
}

const (
	v1Stat = "cache 9547776\nrss 5685248\ninactive_file 1\nhierarchical_memory_limit 9223372036854771712\n" +
		"total_cache 491683840\ntotal_rss 9965568\ntotal_rss_huge 0\ntotal_shmem 9084928\n" +
		"total_inactive_anon 4153344\ntotal_inactive_file 326184960\ntotal_active_file 156413952\n"
	v2Stat = "anon 9965568\nfile 491683840\nkernel 52\nshmem 9084928\ninactive_anon 4153344\n" +
		"inactive_file 326184960\nactive_file 156413952\nslab 99\n"
)

var wantStat = MemoryStat{Anon: 9965568, File: 491683840, ActiveFile: 156413952, InactiveFile: 326184960}

func TestParseMemoryStat_ReturnsHierarchicalValues(t *testing.T) {
	for v, text := range map[Version]string{V1: v1Stat, V2: v2Stat} {
		got, err := ParseMemoryStat([]byte(text), v)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(wantStat, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", v, diff)
		}
	}
}

// The end of a cgroup frees its anonymous memory, its files in memory and kernel memory, and leaves
// page cache. Version 1 does not separate reclaimable kernel memory.
func TestMemoryUsage_WithoutCaches(t *testing.T) {
	const mi = 1 << 20
	for _, tc := range []struct {
		about string
		v     Version
		stat  string
		want  uint64 // of a usage of 500 MiB
	}{
		{"page cache on v2", V2, "anon 10485760\nfile 513802240\nshmem 0\nactive_file 419430400\ninactive_file 94371840\n", 10 * mi},
		{"page cache on v1", V1, "cache 9\nrss 9\ntotal_rss 10485760\ntotal_cache 513802240\ntotal_active_file 419430400\ntotal_inactive_file 94371840\n", 10 * mi},
		{"anonymous memory on v2", V2, "anon 524288000\nfile 0\nactive_file 0\ninactive_file 0\n", 500 * mi},
		{"tmpfs on v2", V2, "anon 0\nfile 524288000\nshmem 419430400\nactive_file 104857600\ninactive_file 0\n", 400 * mi},
		{"tmpfs on v1", V1, "total_rss 0\ntotal_cache 524288000\ntotal_shmem 419430400\ntotal_active_file 0\ntotal_inactive_file 104857600\n", 400 * mi},
		{"kernel memory on v2", V2, "anon 104857600\nfile 0\nkernel 419430400\nactive_file 0\ninactive_file 0\nslab_reclaimable 314572800\nslab_unreclaimable 104857600\n", 200 * mi},
		{"kernel memory on v1", V1, "total_rss 104857600\ntotal_cache 0\ntotal_active_file 0\ntotal_inactive_file 0\n", 500 * mi},
		{"counters ahead of the usage", V2, "anon 0\nfile 629145600\nactive_file 629145600\ninactive_file 0\n", 0},
	} {
		s, err := ParseMemoryStat([]byte(tc.stat), tc.v)
		if err != nil {
			t.Fatalf("%s: %v", tc.about, err)
		}
		if got := (MemoryUsage{Usage: 500 * mi, MemoryStat: s}).WithoutCaches(); got != tc.want {
			t.Errorf("%s: %d MiB, want %d", tc.about, got/mi, tc.want/mi)
		}
	}
}

// Sums and differences of cgroups include every field.
func TestMemoryStat_PlusMinusCoverEveryField(t *testing.T) {
	s := MemoryStat{Anon: 1, File: 2, ActiveFile: 3, InactiveFile: 4, SlabReclaimable: 5}
	if got, want := s.Plus(s), (MemoryStat{2, 4, 6, 8, 10}); got != want {
		t.Errorf("sum %+v, want %+v", got, want)
	}
	if got := s.Plus(s).Minus(s); got != s {
		t.Errorf("difference %+v, want %+v", got, s)
	}
}

func TestParseMemoryStat_NamesMissingOrMalformedLine(t *testing.T) {
	for _, c := range []struct {
		v             Version
		text, wantErr string
	}{
		{V1, "", `"total_rss"`},
		{V1, v2Stat, `"total_rss"`}, // the local numbers of version 1 have this form
		{V2, v1Stat, `"anon"`},
		{V1, strings.Replace(v1Stat, "total_inactive_file 326184960\n", "", 1), `"total_inactive_file"`},
		{V1, strings.Replace(v1Stat, "326184960", "lots", 1), `"total_inactive_file lots"`},
		{V2, strings.Replace(v2Stat, "file 491683840", "file", 1), `"file"`},
		{V2, strings.Replace(v2Stat, "active_file 1", "active_file -1", 2), "active_file -1"},
		{V2, v2Stat + "slab_reclaimable many\n", "slab_reclaimable many"},
	} {
		if s, err := ParseMemoryStat([]byte(c.text), c.v); err == nil || !strings.Contains(err.Error(), c.wantErr) || s != (MemoryStat{}) {
			t.Errorf("%s %q: %+v, error %v, want nothing and an error with %s", c.v, c.text, s, err, c.wantErr)
		}
	}
	// Unknown lines of any form are skipped.
	if _, err := ParseMemoryStat([]byte("thp_swpout\nnumber none\n\n"+v2Stat), V2); err != nil {
		t.Error(err)
	}
}

func TestParseCgroupFile_ReturnsPathOfEachController(t *testing.T) {
	text := "9:name=systemd:/\n4:memory:/kubepods/pod:odd\n3:cpu,cpuacct:/x\n0::/unified (deleted)\n"
	want := map[string]string{
		"name=systemd": "/", "memory": "/kubepods/pod:odd", "cpu": "/x", "cpuacct": "/x", "": "/unified (deleted)",
	}
	got, err := ParseCgroupFile([]byte(text))
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, text := range []string{"memory\n", "4:memory\n", "\n"} {
		if got, err := ParseCgroupFile([]byte(text)); err == nil {
			t.Errorf("ParseCgroupFile(%q) = %v, want an error", text, got)
		}
	}
}

func FuzzParseSingleValue(f *testing.F) {
	for _, s := range []string{"0\n", "501506048\n", "max\n", "-1", "18446744073709551616", ""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := ParseSingleValue(text)
		want, wantErr := strconv.ParseUint(strings.TrimSuffix(string(text), "\n"), 10, 64)
		if got != want && err == nil || (err == nil) != (wantErr == nil) {
			t.Fatalf("ParseSingleValue(%q) = %d, %v; strconv returns %d, %v", text, got, err, want, wantErr)
		}
	})
}

func FuzzParseLimit(f *testing.F) {
	for _, s := range []string{"max\n", "9223372036854771712\n", "1073741824\n", "", "maximum"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		limit, limited, err := ParseLimit(text)
		if limit > 1<<62 || (limit != 0 || limited) && err != nil || limit != 0 && !limited {
			t.Fatalf("ParseLimit(%q) = %d, %t, %v", text, limit, limited, err)
		}
	})
}

func FuzzParseMemoryStat(f *testing.F) {
	f.Add([]byte(v1Stat), true)
	f.Add([]byte(v2Stat), false)
	f.Add([]byte("total_inactive_file \n"), true)
	f.Fuzz(func(t *testing.T, text []byte, one bool) {
		v := V2
		if one {
			v = V1
		}
		s, err := ParseMemoryStat(text, v)
		if err != nil && s != (MemoryStat{}) {
			t.Fatalf("an error and %+v", s)
		}
		for _, key := range statKeys[v] {
			if err == nil && !bytes.Contains(text, []byte(key+" ")) {
				t.Fatalf("accepted without %q: %q", key, text)
			}
		}
	})
}

// FuzzParseCgroupFile compares the parser with containerd's.
func FuzzParseCgroupFile(f *testing.F) {
	f.Add("9:name=systemd:/\n4:memory:/kubepods/pod:odd\n3:cpu,cpuacct:/x\n0::/unified\n")
	f.Add("4:memory\n")
	f.Add("1::\n::\n")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.ContainsRune(text, '\r') || len(text) > 1<<12 {
			return // the library drops carriage returns; the kernel writes none
		}
		got, err := ParseCgroupFile([]byte(text))
		want, unified, wantErr := cgroups.ParseCgroupFromReaderUnified(strings.NewReader(text))
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%q: error %v, the library returns %v", text, err, wantErr)
		}
		if err != nil {
			return
		}
		if got[""] != unified {
			t.Fatalf("%q: unified %q, the library returns %q", text, got[""], unified)
		}
		delete(got, "")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%q (-library +ours):\n%s", text, diff)
		}
	})
}
