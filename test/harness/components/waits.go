package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// slower is the factor for the waits of tests that run in an emulated machine.
const slower = 3

// waits matches the constants of a test that bound a wait. Other durations, such as that of a
// condition that must hold, are part of an assertion.
var waits = regexp.MustCompile(`(?m)^(\s*(?:const\s+)?\w*[tT]imeout\s*=\s*)(\d+)( \* time\.(?:Minute|Second))$`)

// scale multiplies the waits in a test's source, and returns their number.
func scale(source []byte, factor int) ([]byte, int) {
	found := 0
	return waits.ReplaceAllFunc(source, func(line []byte) []byte {
		parts := waits.FindSubmatch(line)
		n, err := strconv.Atoi(string(parts[2]))
		if err != nil {
			return line // more digits than a wait can have
		}
		found++
		return fmt.Appendf(nil, "%s%d%s", parts[1], n*factor, parts[3])
	}), found
}

// longerWaits returns the package with the tests of pkg and longer waits, and the flag by which the go
// command finds it. It exists in an overlay only, below the module's directory: the go command allows
// none over its cache of modules. Assertions remain unchanged. remove removes the changed files.
func longerWaits(module, pkg string) (copied, overlay string, remove func(), err error) {
	list := exec.Command("go", "list", "-f", "{{.Dir}}", pkg)
	list.Dir, list.Stderr = module, os.Stderr
	out, err := list.Output()
	if err != nil {
		return "", "", nil, fmt.Errorf("%s in %s: %w", strings.Join(list.Args, " "), module, err)
	}
	sources, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "*.go"))
	if err != nil {
		return "", "", nil, err
	}
	root, err := filepath.Abs(module)
	if err != nil {
		return "", "", nil, err
	}
	dir, err := os.MkdirTemp("", "waits-")
	if err != nil {
		return "", "", nil, err
	}
	name := filepath.Base(pkg)
	file, err := writeOverlay(dir, filepath.Join(root, name), sources)
	if err != nil {
		return "", "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return "./" + name, "-overlay=" + file, func() { _ = os.RemoveAll(dir) }, nil
}

// writeOverlay writes the file that puts the sources, with longer waits, into the directory place.
func writeOverlay(dir, place string, sources []string) (string, error) {
	replace, changed := map[string]string{}, 0
	for _, name := range sources {
		source, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		base := filepath.Base(name)
		replace[filepath.Join(place, base)] = name
		scaled, found := scale(source, slower)
		if found == 0 {
			continue
		}
		changed++
		replace[filepath.Join(place, base)] = filepath.Join(dir, base)
		if err := os.WriteFile(filepath.Join(dir, base), scaled, 0o644); err != nil {
			return "", err
		}
		fmt.Printf("%s: %d waits are %d times as long\n", base, found, slower)
	}
	if changed == 0 {
		return "", errors.New("no test has a wait of the known form: look at waits.go")
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o644)
}
