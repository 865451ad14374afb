package cluster

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/internal/strictyaml"
)

const fuzzHead = "apiVersion: plimsoll.dev/v1alpha1\nkind: ClusterScenario\n"

// A file without faults runs to its end, and prints the same twice: lines in order, with the keys
// of their kind.
func FuzzRead(f *testing.F) {
	files, err := filepath.Glob("../../examples/clusters/*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatalf("%d examples, %v", len(files), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(fuzzHead + "nodes: [{metadata: {name: a}, count: 3}]\nevents: [{at: 1ns, stop: [a-0], restart: true, deleteNode: [a-1]}]\nuntil: 5m"))
	f.Add([]byte(fuzzHead + "config: {nodeEvictionRate: 1e-300, fullyDisruptedRate: 0, maxUnhealthy: 1%}\nnodes: [{metadata: {name: a}}]\nevents: [{at: 0s, stop: [a]}]\nuntil: 3m"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var faults strictyaml.Faults
		s := Read(strictyaml.Parse(data, &faults), &faults)
		if faults.Err() != nil {
			for _, l := range faults {
				if strings.ContainsAny(l.Error(), "\n\r") {
					t.Errorf("fault with more than one line: %q", l)
				}
			}
			return
		}
		if s.large() {
			return // valid, but too slow for a fuzzer
		}
		var out, again, text bytes.Buffer
		first := s.WriteJSON(&out)
		if second := s.WriteJSON(&again); (first == nil) != (second == nil) || !bytes.Equal(out.Bytes(), again.Bytes()) {
			t.Error("two runs of one scenario differ")
		}
		if err := s.WriteText(&text); (first == nil) != (err == nil) {
			t.Errorf("%v as text, %v as JSON", err, first)
		}
		inOrder(t, out.Bytes())
	})
}

// large reports whether a run takes too long for a fuzzer.
func (s *Scenario) large() bool {
	objects := 0
	for _, n := range s.nodes {
		objects += len(n.names)
	}
	for _, p := range s.pods {
		objects += len(p.names)
	}
	return objects > 100 || len(s.events) > 100 || s.until > time.Hour
}

func inOrder(t *testing.T, output []byte) {
	t.Helper()
	var before Line
	at := time.Duration(-1)
	for d := json.NewDecoder(bytes.NewReader(output)); d.More(); {
		var l Line
		if err := d.Decode(&l); err != nil {
			t.Fatal(err)
		}
		now, err := time.ParseDuration(l.At)
		switch {
		case err != nil:
			t.Error(err)
		case now < at:
			t.Errorf("%+v after %+v", l, before)
		case now == at && compare(before, l) > 0:
			t.Errorf("line %+v follows %+v", l, before)
		}
		before, at = l, now
	}
}
