package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

const lines = `{"mode":"10s","arena":"cgroup","cgroup":1,"mibPerSecond":500,"marginMiB":100,"spinners":0,"outcome":"oom","crossingToDeadMillis":212.5}
{"mode":"notified","arena":"cgroup","cgroup":1,"mibPerSecond":0,"marginMiB":100,"spinners":0,"outcome":"saved","crossingToDeadMillis":35.1}
{"mode":"notified","arena":"cgroup","cgroup":1,"mibPerSecond":50,"marginMiB":10,"spinners":0,"outcome":"saved","crossingToDeadMillis":40}
{"mode":"notified","arena":"cgroup","cgroup":1,"mibPerSecond":50,"marginMiB":10,"spinners":4,"outcome":"saved"}
`

func TestRead_ParsesRaces(t *testing.T) {
	races, err := read(strings.NewReader(lines))
	if err != nil || len(races) != 3 {
		t.Fatalf("got %d races, %v, want the 3 with a time", len(races), err)
	}
	panels := panelsOf(races)
	if len(panels) != 2 || panels[0].margin != 100 || panels[1].margin != 10 {
		t.Fatalf("panels: %+v; want that of 100 MiB, then that of 10 MiB", panels)
	}
	if rates := panels[0].rates(); !slices.Equal(rates, []int64{500, 0}) {
		t.Errorf("got rates %v, want the maximum rate last", rates)
	}
	if modes := modesOf(panels); !slices.Equal(modes, []string{"10s", "notified"}) {
		t.Errorf("modes %v", modes)
	}
	for _, bad := range []string{"", "{}", "no JSON", `{"mode":"1s","outcome":"oom"}`} {
		if races, err := read(strings.NewReader(bad)); err == nil {
			t.Errorf("read(%q) = %v, want an error", bad, races)
		}
	}
}

func TestPoints_HaveFixedPlaces(t *testing.T) {
	ms := 10.0
	p := panel{races: []race{{Mode: "a", Asked: 50, Outcome: "saved", ToDead: &ms}, {Mode: "a", Asked: 50, Outcome: "oom", ToDead: &ms},
		{Mode: "b", Asked: 0, Outcome: "saved", ToDead: &ms}}}
	rates := p.rates()
	saved, lost := p.points("a", 0, 2, rates, false), p.points("a", 0, 2, rates, true)
	if len(saved) != 1 || len(lost) != 1 || saved[0].X >= lost[0].X || lost[0].X >= 0 {
		t.Errorf("saved %v, lost %v: want one each, side by side left of the rate's middle", saved, lost)
	}
	if b := p.points("b", 1, 2, rates, false); len(b) != 1 || b[0].X <= 1 || b[0].X >= 1.5 {
		t.Errorf("points of the second mode: %v, want one right of the second rate's middle", b)
	}
}

func TestDrawPanels_WritesSVG(t *testing.T) {
	races, err := read(strings.NewReader(lines))
	if err != nil {
		t.Fatal(err)
	}
	var svg bytes.Buffer
	if err := drawPanels(panelsOf(races), &svg); err != nil {
		t.Fatal(err)
	}
	var words strings.Builder
	decoder := xml.NewDecoder(&svg)
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("no XML: %v", err)
		}
		if text, ok := token.(xml.CharData); ok {
			words.Write(text)
		}
	}
	for _, want := range []string{"cgroup v1", "memory.available<100Mi", "memory.available<10Mi", "500 MiB/s", "as fast as it goes", "10s", "notified", "killed by the kernel"} {
		if !strings.Contains(words.String(), want) {
			t.Errorf("the picture has no text %q", want)
		}
	}
}
