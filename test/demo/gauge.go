package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// A gauge draws how full the node is: a live line on a terminal, a plain line
// now and then elsewhere.
type gauge struct {
	scene  *scene
	live   bool
	ticker *time.Ticker
	drawn  bool // the cursor stands at the end of a live line
	begun  time.Time
}

const gaugeWidth = 50

func newGauge(s *scene) *gauge {
	g := &gauge{scene: s, live: term.IsTerminal(int(os.Stdout.Fd())), begun: time.Now()}
	every := 250 * time.Millisecond
	if g.live {
		every = 40 * time.Millisecond
	}
	g.ticker = time.NewTicker(every)
	return g
}

func (g *gauge) tick() <-chan time.Time { return g.ticker.C }

func (g *gauge) stop() {
	g.ticker.Stop()
	if g.drawn {
		fmt.Println()
		g.drawn = false
	}
}

// draw shows the used part, and the mark up to which the node may be loaded.
func (g *gauge) draw() {
	left, err := g.scene.node.Available()
	if err != nil {
		return // the node is being taken down
	}
	total := g.scene.options.node
	cell := func(bytes int64) int { return int(min(max(bytes, 0), total) * gaugeWidth / total) }
	used, mark := cell(total-left), cell(total-threshold)
	var bar strings.Builder
	for i := range gaugeWidth {
		switch {
		case i == mark:
			bar.WriteString("⊖")
		case i < used:
			bar.WriteString("█")
		default:
			bar.WriteString("·")
		}
	}
	line := fmt.Sprintf("%6.2fs |%s| %4d MiB available", time.Since(g.begun).Seconds(), bar.String(), left>>20)
	if !g.live {
		fmt.Println(line)
		return
	}
	fmt.Print("\r" + line)
	g.drawn = true
}

// say prints a line without tearing the live one.
func (g *gauge) say(format string, args ...any) {
	if g.drawn {
		fmt.Println()
		g.drawn = false
	}
	fmt.Printf("  "+format+"\n", args...)
}
