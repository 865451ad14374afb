package report

import "strings"

// Each text has a contrast of at least 4.5 to its background, in both colour schemes, and each line of a
// picture one of at least 3.

// colours are the custom properties of a light page, and those that a dark one replaces. --a to --i are the
// layers of the memory of pods.
const colours = `
:root{color-scheme:light dark;--page:#ffffff;--text:#1f2328;--muted:#59636e;--grid:#d1d9e0;--edge:#57606a;--curve:#0969da;--limit:#7d5300;--evict:#b3151f;--dry:#7a3ec8;--mark:#59636e;--held:#0969da;--row:#f6f8fa;
--a:#9ecbff;--b:#ffd8a8;--c:#b2e2b8;--d:#e0c3ff;--e:#ffb8b8;--f:#a5e3e3;--g:#ece08c;--h:#cfd6dd;--i:#eaeef2}
@media (prefers-color-scheme:dark){:root{--page:#0d1117;--text:#f0f6fc;--muted:#9198a1;--grid:#3d444d;--edge:#b7bfc8;--curve:#4493f8;--limit:#e3b341;--evict:#ff7b72;--dry:#c297ff;--mark:#9198a1;--held:#4493f8;--row:#161b22;
--a:#1f4b7a;--b:#70430f;--c:#1f5c2e;--d:#573a8a;--e:#832f35;--f:#125a60;--g:#57520f;--h:#48505a;--i:#2b3138}}
`

// chartText is the style of the texts of pictures. They have the larger size on a narrow screen, which shows a
// picture at half its size.
const chartText = `
svg text{font:20px system-ui,-apple-system,"Segoe UI",Roboto,"Liberation Sans",sans-serif}
@media (min-width:45rem){svg text{font-size:13px}}
svg .head{font-weight:600}
`

// chartStyle has the colours of pictures.
const chartStyle = `
svg text{fill:var(--text)}svg .small{fill:var(--muted)}svg .on-limit{fill:var(--limit)}
.page{fill:var(--page)}.grid{stroke:var(--grid);fill:none}.lane{stroke:var(--edge);fill:none}
.curve{stroke:var(--curve);stroke-width:2.5;fill:none;stroke-linejoin:round;stroke-linecap:round}
.limit{stroke:var(--limit);stroke-width:2;stroke-dasharray:7 5;fill:none}
.held{fill:var(--held)}.check{stroke:var(--edge);stroke-width:1.5;fill:none}
.evict{fill:var(--evict)}.dry{stroke:var(--dry);stroke-width:2.5;fill:var(--page)}
.kill{stroke:var(--evict);stroke-width:3;fill:none}.mark{fill:var(--mark)}
.layer{stroke:var(--edge);stroke-width:1}
.a{fill:var(--a)}.b{fill:var(--b)}.c{fill:var(--c)}.d{fill:var(--d)}.e{fill:var(--e)}.f{fill:var(--f)}.g{fill:var(--g)}.h{fill:var(--h)}.i{fill:var(--i)}
`

// pageStyle is the style of a page. Nothing has a fixed width, and wide tables scroll.
const pageStyle = `
*{box-sizing:border-box}
body{margin:0 auto;padding:1rem;max-width:64rem;background:var(--page);color:var(--text);font:1rem/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Liberation Sans",sans-serif;overflow-wrap:anywhere}
h1{font-size:1.5rem;line-height:1.25}h2{margin-top:2.5rem;border-bottom:1px solid var(--grid)}h3{margin-bottom:.5rem}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.25rem 1rem}dt{color:var(--muted)}dd{margin:0}
figure{margin:0}figcaption,.note{color:var(--muted)}
svg{display:block;width:100%;height:auto}
.scroll{overflow-x:auto}
.scroll:focus-visible{outline:2px solid var(--curve)}
table{border-collapse:collapse;min-width:100%}
caption{text-align:left;color:var(--muted);padding-bottom:.25rem}
th,td{text-align:left;vertical-align:top;padding:.25rem .75rem .25rem 0;border-bottom:1px solid var(--grid);overflow-wrap:normal}
thead th{color:var(--muted);font-weight:600}
tbody th{font-weight:600;overflow-wrap:anywhere;min-width:8rem}
tr.chosen{background:var(--row)}
td.number{white-space:nowrap}
.letter{display:inline-block;padding:0 .5rem;border:1px solid var(--edge);color:var(--text)}
.letter.a{background:var(--a)}.letter.b{background:var(--b)}.letter.c{background:var(--c)}.letter.d{background:var(--d)}.letter.e{background:var(--e)}.letter.f{background:var(--f)}.letter.g{background:var(--g)}.letter.h{background:var(--h)}.letter.i{background:var(--i)}
@media print{body{max-width:none}.scroll{overflow:visible}}
`

// pictureStyle returns the style of a picture that is a file of its own. Programs for slides and drawings do not know
// custom properties, so that each colour is there itself.
func pictureStyle() string {
	light, dark, _ := strings.Cut(colours, "@media")
	return chartText + ":root{color-scheme:light dark}" + resolved(light) + "@media (prefers-color-scheme:dark){" + resolved(dark) + "}\n"
}

// resolved returns the colours of pictures by the custom properties in a style.
func resolved(properties string) (style string) {
	for i, part := range strings.Split(chartStyle, "var(--") {
		if i > 0 {
			name, rest, _ := strings.Cut(part, ")")
			_, value, _ := strings.Cut(properties, "--"+name+":")
			part = value[:strings.IndexAny(value, ";}")] + rest
		}
		style += part
	}
	return style
}
