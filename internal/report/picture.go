package report

import (
	"fmt"
	"strings"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/svg"
)

// Bounds of the texts of a picture of its own.
const (
	lineHeight   = textSize + 4
	maxLineRunes = 56 // that have room in the larger size
	maxLegend    = 8  // evictions that are named
)

func amountOf(p point, unit signals.Unit) string { return unit.Short(signals.Amount(p.value)) }

// classOf returns the class with the colour of a letter.
func classOf(letter string) string { return strings.ToLower(letter) }

// describeSignal describes the picture of a signal in words.
func (i *Incident) describeSignal(h *history) string {
	unit := h.signal.Definition().Unit
	least, most, _ := h.available.extremes()
	text := []string{fmt.Sprintf("%s over time. The least is %s at %s, the most %s at %s.", h.signal,
		amountOf(least, unit), i.clock(i.begin.Add(least.at)), amountOf(most, unit), i.clock(i.begin.Add(most.at)))}
	for _, c := range h.crossings {
		if c.times > 0 {
			text = append(text, plain(i.crossingSentence(h, c)))
		} else {
			text = append(text, fmt.Sprintf("The threshold %s was not crossed.", c.threshold))
		}
	}
	return strings.Join(append(text, shapeNames), " ")
}

// describeMemory describes the picture of the memory of pods in words.
func (i *Incident) describeMemory() string {
	text := []string{"Memory of pods over time, one above the other. The largest values:"}
	for n, l := range i.memory.layers {
		if l.isDrawn() {
			text = append(text, fmt.Sprintf("%s is %s, %s at %s.", letter(n), l.name, signals.UnitBytes.Short(signals.Amount(l.most)), i.clock(l.mostAt)))
		}
	}
	return strings.Join(text, " ")
}

// SVG returns the pictures of the report as one picture, with what happened in words.
func (i *Incident) SVG() []byte {
	var heads []string
	for _, sentence := range i.summary() {
		heads = append(heads, wrapped(plain(sentence))...)
	}
	shown := i.shown()
	height := 3*lineHeight + lineHeight*float64(len(heads))
	height += float64(len(shown)) * (2*lineHeight + float64(signalHeight))
	var legend []string
	if i.usages > 0 {
		legend = i.legend()
		height += 2*lineHeight + float64(memoryHeight)
	}
	legend = append(append(legend, i.evictionLines()...), wrapped(shapeNames)...)
	height += lineHeight * float64(len(legend)+1)

	var d svg.Drawing
	d.Begin(&svg.Root{Width: chartWidth, Height: int(height), Title: plain(i.title()), Description: plain(strings.Join(i.summary(), " ")), Style: pictureStyle()})
	d.Add(`<rect class="page" width="%d" height="%d"/>`, chartWidth, int(height))
	y := 0.0
	line := func(class, text string) {
		y += lineHeight
		d.Text(12, y, class, "", text)
	}
	line("head", "Node "+printable(plain(i.node()), maxLabel))
	line("small", i.begin.UTC().Format(stamp)+" to "+i.end.UTC().Format(stamp))
	for _, text := range heads {
		line("", text)
	}
	for _, h := range shown {
		y += lineHeight
		line("head", h.signal.String())
		i.drawSignal(&d, h, y)
		y += float64(signalHeight)
	}
	if i.usages > 0 {
		y += lineHeight
		line("head", "Memory of pods")
		i.drawMemory(&d, y)
		y += float64(memoryHeight)
	}
	for _, text := range legend {
		line("small", text)
	}
	d.End()
	return d.Bytes()
}

// legend names the layers of the memory of pods.
func (i *Incident) legend() (lines []string) {
	for n, l := range i.memory.layers {
		if l.isDrawn() {
			lines = append(lines, fmt.Sprintf("%s  %s, at most %s", letter(n), printable(l.name, maxLabel-16), signals.UnitBytes.Short(signals.Amount(l.most))))
		}
	}
	return lines
}

// evictionLines names the first evictions by the numbers of their marks.
func (i *Incident) evictionLines() (lines []string) {
	items, _ := i.evictions.all()
	for n, x := range items[:min(len(items), maxLegend)] {
		what := "evicted"
		if x.dryRun {
			what = "dry run"
		}
		lines = append(lines, fmt.Sprintf("%d  %s %s %s", n+1, what, i.clock(x.at), printable(x.pod, maxLabel-16)))
	}
	if rest := i.evictions.count() - len(lines); rest > 0 {
		lines = append(lines, fmt.Sprintf("and %s", plural(rest, "further eviction")))
	}
	return lines
}

// wrapped splits a sentence into lines. A word that is too long is cut.
func wrapped(text string) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		for len([]rune(word)) > maxLineRunes {
			runes := []rune(word)
			if line != "" {
				lines, line = append(lines, line), ""
			}
			lines, word = append(lines, string(runes[:maxLineRunes])), string(runes[maxLineRunes:])
		}
		if line != "" && len([]rune(line))+1+len([]rune(word)) > maxLineRunes {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
