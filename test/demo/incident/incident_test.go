package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/test/demo/markup"
)

const (
	example = "../../../examples/scenarios/helps-host-path-writer.yaml"
	picture = "../../../docs/helps.svg"
)

func scenario(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// drawn draws a scenario and returns the elements.
func drawn(t *testing.T, text string) []markup.Element {
	t.Helper()
	i, err := read([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return markup.Elements(t, i.draw())
}

// The committed picture is that of the scenario.
func TestPicture_MatchesScenario(t *testing.T) {
	i, err := read([]byte(scenario(t)))
	if err != nil {
		t.Fatal(err)
	}
	if written, err := os.ReadFile(picture); err != nil || !bytes.Equal(written, i.draw()) {
		t.Errorf("docs/helps.svg differs from the simulation (%v): run make pictures, or go run ./test/demo/incident as there", err)
	}
}

// Marks and texts follow from the simulation, in the picture of the incident and of variants.
func TestDraw_FollowsSimulation(t *testing.T) {
	whole := scenario(t)
	until := func(at string) string {
		before, _, found := strings.Cut(whole, "- {at: "+at)
		if !found {
			t.Fatalf("no step at %s", at)
		}
		return before
	}
	for _, tc := range []struct {
		name, scenario string
		vain, good     int // marks, without those of the legend
		texts          []string
	}{
		{"the incident", whole, 15, 2, []string{"evictionChoice: kubelet, 16 pods evicted, 15 in vain", "evictionChoice: helps, 1 pod evicted, 0 in vain",
			"nodefs.available<10%", "20Gi", "150 s", "Evictions in vain: 15 with the choice kubelet, 0 with the choice helps"}},
		{"its first minute", until("60s"), 5, 0, []string{"evictionChoice: kubelet, 5 pods evicted, 5 in vain", "evictionChoice: helps, 0 pods evicted, 0 in vain", "50 s"}},
		{"a larger disk", strings.ReplaceAll(whole, "20Gi", "40Gi"), 15, 2, []string{"40Gi"}},
		{"a file with the other choice", strings.Replace(whole, "evictionChoice: helps", "evictionChoice: kubelet", 1), 15, 2, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			vain, good, words := 0, 0, ""
			for _, e := range drawn(t, tc.scenario) {
				switch e.Attr["class"] {
				case "vain":
					vain++
				case "good":
					good++
				}
				words += e.Text + "\n"
			}
			if vain != tc.vain+1 || good != tc.good+1 {
				t.Errorf("%d crosses and %d dots with the legend, want %d and %d", vain, good, tc.vain+1, tc.good+1)
			}
			for _, text := range tc.texts {
				if !strings.Contains(words, text+"\n") {
					t.Errorf("%q is missing in:\n%s", text, words)
				}
			}
		})
	}
}

// The picture is accessible, small, and follows the colour scheme; every text is inside.
func TestDraw_IsReadable(t *testing.T) {
	list := drawn(t, scenario(t))
	if root := list[0].Attr; root["role"] != "img" || root["aria-labelledby"] != "title desc" {
		t.Errorf("root %v, want an image labelled by its title and description", root)
	}
	if list[1].Name != "title" || list[1].Attr["id"] != "title" || list[2].Name != "desc" || list[2].Attr["id"] != "desc" || list[2].Text == "" {
		t.Errorf("title %+v, description %+v", list[1], list[2])
	}
	for _, e := range list {
		if e.Name == "style" && !strings.Contains(e.Text, "prefers-color-scheme:dark") {
			t.Error("no colours for dark pages")
		}
		if e.Name != "text" {
			continue
		}
		x, y := e.Number(t, "x"), e.Number(t, "y")
		length := 7.5 * float64(len(e.Text)) // of a wide font
		switch e.Attr["text-anchor"] {
		case "end":
			x -= length
		case "middle":
			x -= length / 2
		}
		if x < 0 || x+length > width || y < 12 || y > height {
			t.Errorf("outside: %+v", e)
		}
	}
	i, err := read([]byte(scenario(t)))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(i.draw()); n > 8<<10 {
		t.Errorf("%d bytes, want at most 8 KiB", n)
	}
}

func TestRead_RefusesWhatCannotBeCompared(t *testing.T) {
	const head = "apiVersion: plimsoll.dev/v1alpha1\nkind: "
	for text, want := range map[string]string{
		"kind: 1": "kind: ",
		head + "ClusterScenario\nnodes: [{metadata: {name: a}}]\nuntil: 1s": "must be a NodeScenario",
		head + "NodeScenario\nsteps: [{at: 0s}]":                            "nothing to draw",
		strings.Replace(scenario(t), "evictionHard: {nodefs.available: 10%}", "evictionHard: {}\n  evictionSoft: {nodefs.available: 10%}\n  evictionSoftGracePeriod: {nodefs.available: 10s}", 1): "no hard threshold",
	} {
		if _, err := read([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: error %v, want %q", text, err, want)
		}
	}
}
