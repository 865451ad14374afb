package pages

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// written are the pages: golden files of the tests that make them.
var written = map[string]string{
	"incident": "../../internal/report/testdata/leak.html",
	"trial":    "../../internal/report/testdata/trial.html",
}

// screens are the sizes in CSS pixels.
var screens = map[string]struct {
	width, height int64
	phone         bool
}{"telephone": {360, 740, true}, "screen": {1280, 800, false}}

// A page needs no other file and no network, has no message of the browser, fits on its screen, has the colours of the
// scheme, and no violation of axe-core's rules.
func TestPages_InChromium(t *testing.T) {
	browser := started(t)
	program, err := axe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, file := range written {
		path, err := filepath.Abs(file)
		if err != nil {
			t.Fatal(err)
		}
		address := (&url.URL{Scheme: "file", Path: path}).String()
		for on, s := range screens {
			for _, scheme := range []string{"light", "dark"} {
				t.Run(name+" on a "+on+", "+scheme, func(t *testing.T) {
					tab, cancel := chromedp.NewContext(browser)
					defer cancel()
					p := page{T: t, tab: tab}
					p.open(address, emulation.SetDeviceMetricsOverrideParams{Width: s.width, Height: s.height, DeviceScaleFactor: 2, Mobile: s.phone}, scheme)
					p.checkLayout(s.width, scheme)
					p.checkRules(program)
					p.checkMessages()
				})
			}
		}
	}
}

// started runs a browser. Without one the test is skipped, and fails where CI is set.
func started(t *testing.T) context.Context {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if chrome, chromeErr := exec.LookPath("google-chrome"); err != nil && chromeErr == nil {
		program, err = chrome, nil
	}
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%v: apt-get install chromium", err)
		}
		t.Skipf("%v: apt-get install chromium", err)
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(program), chromedp.NoSandbox)
	all, cancelAll := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancelAll)
	browser, cancel := chromedp.NewContext(all)
	t.Cleanup(cancel)
	if err := chromedp.Do(browser); err != nil {
		t.Fatal(err)
	}
	return browser
}

// page is a page in a tab.
type page struct {
	*testing.T
	tab context.Context

	mu       sync.Mutex
	messages []string
}

// patience bounds one command.
const patience = time.Minute

// call sends a command.
func call[P, R any](p *page, command cdp.Command[P, R], params P) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.tab, patience)
	defer cancel()
	if _, err := chromedp.Call(ctx, command, params); err != nil {
		p.Fatal(err)
	}
}

// evaluated returns the value of an expression.
func evaluated[T any](p *page, expression string, options ...chromedp.EvaluateOption) T {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.tab, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, options...))
	if err != nil {
		p.Fatal(err)
	}
	return value
}

// open opens the page, and collects messages of the browser and requests other than that of the page.
func (p *page) open(address string, size emulation.SetDeviceMetricsOverrideParams, scheme string) {
	p.Helper()
	err := chromedp.Listen(p.tab, func(e any) {
		p.mu.Lock()
		defer p.mu.Unlock()
		switch e := e.(type) {
		case *log.EventEntryAdded:
			p.messages = append(p.messages, e.Entry.Text)
		case *runtime.EventConsoleAPICalled:
			p.messages = append(p.messages, fmt.Sprint("console: ", e.Type))
		case *network.EventRequestWillBeSent:
			if e.Request.URL != address {
				p.messages = append(p.messages, "request: "+e.Request.URL)
			}
		}
	})
	if err != nil {
		p.Fatal(err)
	}
	call(p, log.Enable, cdp.Empty{})
	call(p, network.Enable, network.EnableParams{})
	call(p, emulation.SetDeviceMetricsOverride, size)
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	ctx, cancel := context.WithTimeout(p.tab, patience)
	defer cancel()
	if _, err := chromedp.Run(ctx, chromedp.Navigate(address)); err != nil {
		p.Fatal(err)
	}
}

func (p *page) checkMessages() {
	p.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.messages) > 0 {
		p.Errorf("messages of the browser:\n%s", strings.Join(p.messages, "\n"))
	}
}

// checkLayout checks that the page is not wider than the screen, that its pictures are shown, and its colours.
func (p *page) checkLayout(width int64, scheme string) {
	p.Helper()
	got := evaluated[struct {
		Width, Pictures, Hidden float64
		Background              string
	}](p, `(() => {
		const pictures = [...document.querySelectorAll("svg")];
		return {Width: document.documentElement.scrollWidth, Pictures: pictures.length,
			Hidden: pictures.filter(s => s.getBoundingClientRect().width < 200).length,
			Background: getComputedStyle(document.body).backgroundColor};
	})()`)
	if int64(got.Width) > width || got.Hidden > 0 {
		p.Errorf("the page is %g pixels wide, on %d, and %g of %g pictures are too small", got.Width, width, got.Hidden, got.Pictures)
	}
	if want := map[string]string{"light": "rgb(255, 255, 255)", "dark": "rgb(13, 17, 23)"}[scheme]; got.Background != want {
		p.Errorf("the background is %s, want %s", got.Background, want)
	}
}

// checkRules checks the rules of axe-core, those for good practice included.
func (p *page) checkRules(program string) {
	p.Helper()
	type rule struct {
		ID    string `json:"id"`
		Help  string `json:"help"`
		Nodes []struct {
			HTML           string `json:"html"`
			FailureSummary string `json:"failureSummary"`
		} `json:"nodes"`
	}
	evaluated[chromedp.Void](p, program)
	result := evaluated[struct {
		Violations, Passes []rule
	}](p, `axe.run().then(r => ({Violations: r.violations, Passes: r.passes}))`, chromedp.EvalAwaitPromise)
	for _, v := range result.Violations {
		for _, n := range v.Nodes[:min(len(v.Nodes), 3)] {
			p.Errorf("%s: %s\n%s\n%s", v.ID, v.Help, n.HTML, n.FailureSummary)
		}
	}
	if len(result.Passes) < 10 {
		p.Errorf("only %d rules apply to the page", len(result.Passes))
	}
}
