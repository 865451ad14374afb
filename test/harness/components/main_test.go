package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestComponents_ArePinned: every component comes from a module that pins it and is stripped.
// Those of Kubernetes report their version.
func TestComponents_ArePinned(t *testing.T) {
	all := components
	for _, others := range []releases{{"1.34", "1.7"}, {"1.35", "2.4"}, {"1.36", ""}, {"1.37", ""}} {
		for _, c := range components {
			older, err := c.of(others)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, older)
			if release := others.kubernetes; c.module == "." && (older.module == ".") != (release == "1.37") {
				t.Errorf("%s of Kubernetes %s comes from %s", c.name, release, older.module)
			}
			if c.module == "containerd" && (older.module == "containerd-1.7") != (others.containerd == "1.7") {
				t.Errorf("%s of containerd %q comes from %s", c.name, others.containerd, older.module)
			}
		}
	}
	for _, c := range all {
		pins, err := readPins(c.module)
		if err != nil {
			t.Fatal(err)
		}
		version, err := pins.version(c.source)
		if err != nil || strings.Count(version, ".") < 2 || strings.HasPrefix(version, "v") {
			t.Errorf("%s has version %q, %v", c.name, version, err)
		}
		flags, err := c.buildFlags(pins)
		if err != nil {
			t.Fatal(err)
		}
		all := strings.Join(flags, " ")
		if !strings.Contains(all, stripped) {
			t.Errorf("%s is built with %s: not stripped", c.name, all)
		}
		if c.stamp != "" && !strings.Contains(all, " -X "+c.stamp+"=v"+version) {
			t.Errorf("%s %s is built with %s: want its version", c.name, version, all)
		}
		if c.source == "k8s.io/kubernetes" && !strings.Contains(all, ".gitVersion=v"+version+" ") {
			t.Errorf("%s %s is built with %s: want its version", c.name, version, all)
		}
	}
}

// TestCache_DependsOnAllInputs: every input of a program changes its cache path.
func TestCache_DependsOnAllInputs(t *testing.T) {
	t.Setenv("PLIMSOLL_COMPONENTS", t.TempDir())
	pinned := pins{name: "runc", mod: []byte("module a"), sum: []byte("sums"), compiler: "go1.26"}
	places := map[string]string{}
	for what, change := range map[string]func(*pins, *[]string){
		"nothing":  func(*pins, *[]string) {},
		"go.mod":   func(p *pins, _ *[]string) { p.mod = []byte("module b") },
		"go.sum":   func(p *pins, _ *[]string) { p.sum = nil },
		"compiler": func(p *pins, _ *[]string) { p.compiler = "go1.27" },
		"flags":    func(_ *pins, flags *[]string) { *flags = []string{"build", "-tags", "seccomp"} },
		"joints":   func(_ *pins, flags *[]string) { *flags = []string{"build -tags", "other"} },
	} {
		changed, flags := pinned, []string{"build", "-tags", "other"}
		change(&changed, &flags)
		place, err := changed.cache(flags)
		if err != nil {
			t.Fatal(err)
		}
		if other, taken := places[place]; taken {
			t.Errorf("%s and %s have the same place %s", what, other, place)
		}
		places[place] = what
	}
}

// TestNodeTests_FitTheNode: the node tests are those of the components' release.
func TestNodeTests_FitTheNode(t *testing.T) {
	versions := map[string]string{}
	for _, module := range []string{".", "e2enode"} {
		pins, err := readPins(module)
		if err != nil {
			t.Fatal(err)
		}
		if versions[module], err = pins.version("k8s.io/kubernetes"); err != nil {
			t.Fatal(err)
		}
	}
	if versions["."] != versions["e2enode"] {
		t.Errorf("Kubernetes of the components and of the node tests: %v", versions)
	}
}

func TestScale_LengthensWaitsOnly(t *testing.T) {
	const source = `
const (
	pressureDisappearTimeout          = 10 * time.Minute
	postTestConditionMonitoringPeriod = 1 * time.Minute
	pressureDelay     = 20 * time.Second
)
	const pressureTimeout = 15 * time.Minute
	nodeReadyTimeout = 2 * time.Minute
	}, time.Minute*8, time.Second*4).ShouldNot(gomega.HaveOccurred())
`
	want := strings.NewReplacer("10 *", "30 *", "15 *", "45 *", "2 * time.Minute", "6 * time.Minute").Replace(source)
	if got, found := scale([]byte(source), 3); string(got) != want || found != 3 {
		t.Errorf("%d waits: %s", found, got)
	}
}

func TestRun_BuildsNodeTestsByNameOnly(t *testing.T) {
	for _, c := range components {
		if c.byName != (c.module == "e2enode") {
			t.Errorf("%s of module %s: built only by name: %v", c.name, c.module, c.byName)
		}
	}
}

func TestLink_ReplacesTarget(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "etcd")
	for _, program := range []string{"/old/etcd", "/new/etcd", "/new/etcd"} {
		if err := link(program, name); err != nil {
			t.Fatal(err)
		}
		if at, err := os.Readlink(name); err != nil || at != program {
			t.Errorf("the link leads to %s, %v; want %s", at, err, program)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("files beside the link: %v, %v", entries, err)
	}
}

func TestRun_RefusesUnknownComponent(t *testing.T) {
	if err := run(t.TempDir(), releases{}, []string{"kube-proxy"}); err == nil || !strings.Contains(err.Error(), "kube-proxy") {
		t.Errorf("unknown component: %v", err)
	}
}
