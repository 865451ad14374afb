package healthz

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Check is one condition of health. Err returns at once: it reads a stored result and measures
// nothing.
type Check struct {
	Name string // of lower-case letters, digits and hyphens
	Err  func() error
	// Note returns information for a successful check; nil: none.
	Note func() string
	// Lenient: a failure is listed, and fails the check alone. The program works in spite of it.
	Lenient bool
}

// ping always succeeds: any response proves that the server works.
var ping = Check{Name: "ping", Err: func() error { return nil }}

// probe serves the results of a list of checks, in the format of Kubernetes' own components. The
// reason of a failure is part of the response, except in public.
type probe struct {
	name   string // livez or readyz
	checks []Check
}

// ServeHTTP responds "ok", or lists every check if one failed or verbose is requested.
func (p *probe) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	lines, failed := p.run(query)
	outcome := "passed"
	if failed {
		outcome = "failed"
	}
	text := "ok"
	if failed || query.Has("verbose") {
		text = fmt.Sprintf("%s%s check %s\n", lines, p.name, outcome)
	}
	answer(w, failed, text)
}

// public responds "ok" or "failed" to any client, and passes requests for details on to detailed.
func (p *probe) public(detailed http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "" {
			detailed.ServeHTTP(w, r)
			return
		}
		text := "ok"
		_, failed := p.run(nil)
		if failed {
			text = p.name + " check failed\n"
		}
		answer(w, failed, text)
	})
}

// run runs the checks that are not excluded and returns one line for each.
func (p *probe) run(query url.Values) (lines string, failed bool) {
	var b strings.Builder
	excluded := query["exclude"]
	for _, c := range p.checks {
		if slices.Contains(excluded, c.Name) {
			fmt.Fprintf(&b, "[+]%s excluded: ok\n", c.Name)
			continue
		}
		err := c.Err()
		failed = failed || err != nil && !c.Lenient
		b.WriteString(line(&c, err))
	}
	if strays := p.strays(excluded); len(strays) > 0 {
		fmt.Fprintf(&b, "warn: no check to exclude is called %q\n", strays)
	}
	return b.String(), failed
}

func line(c *Check, err error) string {
	switch {
	case err != nil:
		return "[-]" + c.Name + " failed: " + oneLine(err.Error()) + "\n"
	case c.Note != nil:
		return "[+]" + c.Name + " ok: " + oneLine(c.Note()) + "\n"
	}
	return "[+]" + c.Name + " ok\n"
}

func oneLine(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}

// strays returns the excluded names that belong to no check.
func (p *probe) strays(excluded []string) (names []string) {
	for _, name := range excluded {
		if !slices.ContainsFunc(p.checks, func(c Check) bool { return c.Name == name }) {
			names = append(names, name)
		}
	}
	return names
}

// one responds to the request for a single check.
func (p *probe) one(w http.ResponseWriter, r *http.Request) {
	i := slices.IndexFunc(p.checks, func(c Check) bool { return c.Name == r.PathValue("check") })
	if i < 0 {
		http.Error(w, fmt.Sprintf("%s has no such check: see /%s?verbose", p.name, p.name), http.StatusNotFound)
		return
	}
	err := p.checks[i].Err()
	if err != nil {
		answer(w, true, line(&p.checks[i], err))
		return
	}
	answer(w, false, "ok")
}

func answer(w http.ResponseWriter, failed bool, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	if failed {
		w.WriteHeader(http.StatusInternalServerError)
	}
	fmt.Fprint(w, text) // a disconnected client reads no error
}
