package test

import (
	"go/ast"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	parity      = "docs/internals/parity.md"
	outOfScope  = "out of scope"
	minClusters = 1000
)

// checklist lists the upstream tests that the document must contain, with the minimum number of
// rows.
var checklist = map[string]int{
	"TestMonitorNodeHealth": 9, "TestPodStatusChange": 1, "TestMonitorNodeHealthUpdateStatus": 4,
	"TestMonitorNodeHealthUpdateNodeAndPodStatusWithLease": 10, "TestMonitorNodeHealthMarkPodsNotReady": 3,
	"TestMonitorNodeHealthMarkPodsNotReadyWithWorkerSize": 1, "TestMonitorNodeHealthMarkPodsNotReadyRetry": 3,
	"TestApplyNoExecuteTaints": 4, "TestApplyNoExecuteTaintsToUnreachableNode": 1,
	"TestApplyNoExecuteTaintsToNodesEnqueueTwice": 1, "TestSwapUnreachableNotReadyTaints": 1,
	"TestTaintsNodeByCondition": 3, "TestNodeEventGeneration": 1, "TestReconcileNodeLabels": 4, "TestTryUpdateNodeHealth": 4,
	"Test_isNodeExcludedFromDisruptionChecks": 3, "TestProcessPodMarkPodNotReady": 3,

	"TestUniqueQueueGet": 1, "TestAddNode": 1, "TestDelNode": 3, "TestTry": 1, "TestTryOrdering": 1, "TestTryRemovingWhileTry": 1,
	"TestClear": 1, "TestSwapLimiter": 3, "TestAddAfterTry": 1,

	"TestFilterNoExecuteTaints": 1, "TestCreatePod": 6, "TestDeletePod": 1, "TestUpdatePod": 4, "TestCreateNode": 3, "TestDeleteNode": 1,
	"TestUpdateNode": 5, "TestUpdateNodeWithMultipleTaints": 1, "TestUpdateNodeWithMultiplePods": 2,
	"TestGetMinTolerationTime": 5, "TestEventualConsistency": 1, "TestPodDeletionEvent": 1,

	"TestExecute": 1, "TestExecuteDelayed": 1, "TestCancel": 1, "TestCancelAndRead": 1,

	"TestEvictionForNoExecuteTaintAddedByUser": 3, "TestTaintBasedEvictions": 4, "TestTaintNodeByCondition": 9,
	"TestGCTerminated": 1, "TestGCOrphaned": 1, "TestGCUnscheduledTerminating": 1, "TestGCTerminating": 1,
	"TestGCInspectingPatchedPodBeforeDeletion": 1,
	"TestPodGcOrphanedPodsWithFinalizer":       1, "TestTerminatingOnOutOfServiceNode": 1, "TestPodGcForPodsWithDuplicatedFieldKeys": 1,

	"(restart)": 1, "(rate 1.0)": 1, "(timer shortening)": 1, "(lost deletes)": 1, "(zone change mid-pass)": 1,
}

func TestParity_CoversUpstreamTests(t *testing.T) {
	d := parityOf(t)
	count := map[string]int{}
	for _, row := range d.rows("upstream") {
		upstream, here := row[0], row[2]
		count[upstream]++
		if _, known := checklist[upstream]; !known {
			t.Errorf("%s: %s is not on the checklist of test/parity_test.go: correct the name, or add it", parity, upstream)
		}
		if cited := d.check(here); cited == 0 && !strings.HasPrefix(here, outOfScope) {
			t.Errorf("%s: %s: no test is cited for the case %q: cite a test or scenario, or begin with %q and the reason", parity, upstream, row[1], outOfScope)
		}
		d.check(row[3])
	}
	for _, upstream := range slices.Sorted(maps.Keys(checklist)) {
		if count[upstream] < checklist[upstream] {
			t.Errorf("%s has %d rows for %s, at least %d are on the checklist: compare each case with a test", parity, count[upstream], upstream, checklist[upstream])
		}
	}
}

// citedClusters matches the documented number of random clusters of a property, and the constant
// with that number in the tests of the package.
var citedClusters = regexp.MustCompile("^([0-9]+) \\(`(\\w+)`\\)$")

func TestParity_InvariantsUseEnoughClusters(t *testing.T) {
	d := parityOf(t)
	rows := d.rows("invariant")
	if len(rows) < 5 {
		t.Errorf("%s: got %d invariants, want at least 5", parity, len(rows))
	}
	for _, row := range rows {
		found := citedClusters.FindStringSubmatch(row[2])
		if d.check(row[1]) != 1 || found == nil {
			t.Errorf("%s: %q: cite one test and its number of clusters, such as 1000 (`worlds`)", parity, row[0])
			continue
		}
		dir := path.Dir(d.file)
		if n, _ := strconv.Atoi(found[1]); n < minClusters || !d.constant(dir, found[2], found[1]) {
			t.Errorf("%s: %q: %s clusters are cited, want at least %d and a constant in the tests of %s: %s with that value", parity, row[0], found[1], minClusters, dir, found[2])
		}
	}
}

// parityDocument is docs/internals/parity.md with the tests that it cites.
type parityDocument struct {
	*testing.T
	tree  *tree
	lines []string
	file  string // cited last
}

func parityOf(t *testing.T) *parityDocument {
	t.Helper()
	tree := loaded(t)
	text, err := os.ReadFile(filepath.Join(tree.root, parity))
	if err != nil {
		t.Fatal(err)
	}
	return &parityDocument{T: t, tree: tree, lines: strings.Split(string(text), "\n")}
}

// rows returns the rows of all tables with this title in the first column.
func (d *parityDocument) rows(title string) (rows [][]string) {
	inside := false
	for _, l := range d.lines {
		cells := strings.Split(strings.Trim(l, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case !strings.HasPrefix(l, "|"):
			inside = false
		case cells[0] == title:
			inside = true
		case !inside || strings.HasPrefix(cells[0], "---"):
		case len(cells) != 4:
			d.Errorf("%s: a row of %d cells: %s", parity, len(cells), l)
		default:
			rows = append(rows, cells)
		}
	}
	return rows
}

// cited matches text between back-quotes, optionally followed by names of cases.
var cited = regexp.MustCompile("`([^`]+)`(?: \\(([^)`]*)\\))?")

// check returns the number of tests and scenarios that a text cites. It reports an error for
// each one that does not exist.
func (d *parityDocument) check(text string) (n int) {
	d.Helper()
	for _, found := range cited.FindAllStringSubmatch(text, -1) {
		switch name := found[1]; {
		case strings.HasSuffix(name, "_test.go"):
			d.file = name
		case strings.HasPrefix(name, "examples/"):
			d.checkScenario(name)
			n++
		case strings.HasPrefix(name, "Test"):
			d.checkTest(name, found[2])
			n++
		case !strings.HasPrefix(name, "--"):
			d.Errorf("%s: `%s` is neither a test file, a test, a scenario nor a flag", parity, name)
		}
	}
	return n
}

func (d *parityDocument) checkScenario(name string) {
	d.Helper()
	for _, end := range []string{".yaml", ".expect.json"} {
		if _, err := os.Stat(filepath.Join(d.tree.root, name+end)); err != nil {
			d.Errorf("%s cites the scenario %s: %v", parity, name, err)
		}
	}
}

// checkTest reports an error unless the last cited file has the test, and contains its cases,
// separated by semicolons, as literals.
func (d *parityDocument) checkTest(name, cases string) {
	d.Helper()
	i := slices.IndexFunc(d.tree.sources, func(s *source) bool { return s.name == d.file })
	if i < 0 {
		d.Errorf("%s cites %s in %s, which does not exist: cite its new file", parity, name, d.file)
		return
	}
	s := d.tree.sources[i]
	if !slices.ContainsFunc(s.file.Decls, func(decl ast.Decl) bool {
		f, ok := decl.(*ast.FuncDecl)
		return ok && f.Recv == nil && f.Name.Name == name
	}) {
		d.Errorf("%s cites %s, which is not in %s: cite its new file", parity, name, d.file)
	}
	texts := s.texts()
	for one := range strings.SplitSeq(cases, ";") {
		if one = strings.TrimSpace(one); one != "" && !texts[one] {
			d.Errorf("%s cites the case %q of %s, which is not in %s", parity, one, name, d.file)
		}
	}
}

// texts returns the literals of a file.
func (s *source) texts() map[string]bool {
	all := map[string]bool{}
	ast.Inspect(s.file, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
			if text, err := strconv.Unquote(l.Value); err == nil {
				all[text] = true
			}
		}
		return true
	})
	return all
}

// constant reports whether a test of the directory has a constant with this name and value.
func (d *parityDocument) constant(dir, name, value string) (found bool) {
	for _, s := range d.tree.sources {
		if s.dir != dir || !s.test {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if v, ok := n.(*ast.ValueSpec); ok {
				for i, id := range v.Names {
					if i < len(v.Values) && id.Name == name {
						l, is := v.Values[i].(*ast.BasicLit)
						found = found || is && l.Value == value
					}
				}
			}
			return true
		})
	}
	return found
}
