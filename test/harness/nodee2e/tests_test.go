package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestReadResult_IsThatOfTheSpec: nodes of the suite, and specs outside of the focus, are no results. The
// step is the last one before the failure.
func TestReadResult_IsThatOfTheSpec(t *testing.T) {
	const (
		setUp   = `{"LeafNodeType":"SynchronizedBeforeSuite","State":"passed"}`
		outside = `{"LeafNodeType":"It","State":"skipped"}`
		failure = `"Failure":{"Message":"no pressure","Location":{"FileName":"k8s.io/kubernetes/test/e2e_node/eviction_test.go","LineNumber":816},"TimelineLocation":{"Order":5}}`
		steps   = `"SpecEvents":[{"SpecEventType":"By","Message":"waiting","TimelineLocation":{"Order":4}},{"SpecEventType":"By","Message":"deleting","TimelineLocation":{"Order":6}}]`
	)
	for name, test := range map[string]struct {
		specs string
		want  result // zero: an error
	}{
		"passed":                  {setUp + "," + outside + `,{"LeafNodeType":"It","State":"passed","RunTime":2000000000,` + steps + "}," + outside, result{State: "passed", Seconds: 2}},
		"failed":                  {setUp + `,{"LeafNodeType":"It","State":"failed",` + failure + "," + steps + "}", result{State: "failed", Message: "no pressure", Where: "eviction_test.go:816", Step: "waiting"}},
		"skipped":                 {setUp + `,{"LeafNodeType":"It","State":"skipped",` + failure + "}", result{State: "skipped", Message: "no pressure", Where: "eviction_test.go:816"}},
		"set-up failed":           {`{"LeafNodeType":"SynchronizedBeforeSuite","State":"failed",` + failure + "}," + outside, result{}},
		"passed, clean-up failed": {`{"LeafNodeType":"It","State":"passed"},{"LeafNodeType":"AfterSuite","State":"failed",` + failure + "}", result{State: "passed"}},
		"no spec of the name":     {setUp + "," + outside, result{}},
	} {
		file := filepath.Join(t.TempDir(), "report.json")
		if err := os.WriteFile(file, []byte(`[{"SpecReports":[`+test.specs+`]}]`), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := readResult(file)
		if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", test.want) || (err == nil) != (test.want.State != "") {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, test.want)
		}
	}
}

// TestPage_HasAResultOfEverySpec: every spec has a row, and a row without a run has no result.
func TestPage_HasAResultOfEverySpec(t *testing.T) {
	text, err := os.ReadFile("../../../docs/internals/node-e2e.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(line, "| \n"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if !strings.HasPrefix(line, "| `") || len(cells) < 5 {
			continue
		}
		rows = append(rows, strings.Trim(cells[0], "`"))
		const notRun = "not run"
		alone, with, departure, date := cells[2], cells[3], cells[4], strings.Join(cells[5:], "")
		for _, cell := range []string{alone, with} {
			if cell != notRun && !strings.HasPrefix(cell, "pass, ") && !strings.HasPrefix(cell, "fail") {
				t.Errorf("%s: %q: want pass with its seconds, fail with its place, or %s", cells[0], cell, notRun)
			}
		}
		if _, err := time.Parse(time.DateOnly, date); (err == nil) != (alone != notRun || with != notRun) {
			t.Errorf("%s: the date is %q, and the results are %q and %q", cells[0], date, alone, with)
		}
		if (departure == notRun) != (with == notRun) || departure == "" {
			t.Errorf("%s: the departure is %q, and the result with Plimsoll is %q", cells[0], departure, with)
		}
	}
	var names []string
	for _, s := range specs {
		names = append(names, s.name)
	}
	slices.Sort(rows)
	slices.Sort(names)
	if !slices.Equal(rows, names) {
		t.Errorf("the page has rows for %v, want %v", rows, names)
	}
}

// TestRegistry_ServesWhatTheDigestsSay: a runtime checks every digest, and asks for the manifest a second
// time by its digest.
func TestRegistry_ServesWhatTheDigestsSay(t *testing.T) {
	server := httptest.NewServer(&registry{dir: t.TempDir(), blobs: map[string]string{}, tags: map[string][]byte{}})
	defer server.Close()
	get := func(path string) []byte {
		t.Helper()
		response, err := http.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("GET %s: %s, %v: %s", path, response.Status, err, text)
		}
		return text
	}
	const place = "/v2/e2e-test-images/nginx/"
	text := get(place + "manifests/1.27.0-2?ns=registry.k8s.io")
	if again := get(place + "manifests/" + digest(text) + "?ns=registry.k8s.io"); string(again) != string(text) {
		t.Errorf("by its digest: %s, want %s", again, text)
	}
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	if err := json.Unmarshal(text, &manifest); err != nil || len(manifest.Layers) != 1 {
		t.Fatalf("%s: %v", text, err)
	}
	for _, d := range append(manifest.Layers, manifest.Config) {
		blob := get(place + "blobs/" + d.Digest)
		if sum := fmt.Sprintf("sha256:%x", sha256.Sum256(blob)); sum != d.Digest || len(blob) != d.Size {
			t.Errorf("blob %s of %d bytes has %s and %d", d.Digest, d.Size, sum, len(blob))
		}
	}
	if other := get("/v2/e2e-test-images/perl/manifests/5.26?ns=registry.k8s.io"); string(other) == string(text) {
		t.Error("two images are the same: the runtime would store one")
	}
	if response, err := http.Head(server.URL + place + "manifests/" + digest([]byte("other"))); err != nil || response.StatusCode != http.StatusNotFound {
		t.Errorf("an unknown digest: %v, %v", response, err)
	}
}
