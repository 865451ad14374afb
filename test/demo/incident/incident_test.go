package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
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

// element is a part of a picture.
type element struct {
	name string
	attr map[string]string
	text string
}

// drawn draws a scenario and returns the elements; the picture is well-formed then.
func drawn(t *testing.T, text string) (list []element) {
	t.Helper()
	i, err := read([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	svg := i.draw()
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatalf("malformed: %v\n%s", err, svg)
		}
		switch found := token.(type) {
		case xml.StartElement:
			e := element{name: found.Name.Local, attr: map[string]string{}}
			for _, a := range found.Attr {
				e.attr[a.Name.Local] = a.Value
			}
			list = append(list, e)
		case xml.CharData:
			if len(list) > 0 {
				list[len(list)-1].text += strings.TrimSpace(string(found))
			}
		}
	}
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
				switch e.attr["class"] {
				case "vain":
					vain++
				case "good":
					good++
				}
				words += e.text + "\n"
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
	if root := list[0].attr; root["role"] != "img" || root["aria-labelledby"] != "title desc" {
		t.Errorf("root %v, want an image labelled by its title and description", root)
	}
	if list[1].name != "title" || list[1].attr["id"] != "title" || list[2].name != "desc" || list[2].attr["id"] != "desc" || list[2].text == "" {
		t.Errorf("title %+v, description %+v", list[1], list[2])
	}
	for _, e := range list {
		if e.name == "style" && !strings.Contains(e.text, "prefers-color-scheme:dark") {
			t.Error("no colours for dark pages")
		}
		if e.name != "text" {
			continue
		}
		x, errX := strconv.ParseFloat(e.attr["x"], 64)
		y, errY := strconv.ParseFloat(e.attr["y"], 64)
		length := 7.5 * float64(len(e.text)) // of a wide font
		switch e.attr["text-anchor"] {
		case "end":
			x -= length
		case "middle":
			x -= length / 2
		}
		if errX != nil || errY != nil || x < 0 || x+length > width || y < 12 || y > height {
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
