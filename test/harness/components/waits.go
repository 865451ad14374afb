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

// longerWaits returns the flag of the go command that replaces the tests of a package by copies with
// longer waits, and removes the copies afterwards. Assertions remain unchanged.
func longerWaits(module, pkg string) (flag string, remove func(), err error) {
	list := exec.Command("go", "list", "-f", "{{.Dir}}", pkg)
	list.Dir, list.Stderr = module, os.Stderr
	out, err := list.Output()
	if err != nil {
		return "", nil, fmt.Errorf("%s in %s: %w", strings.Join(list.Args, " "), module, err)
	}
	tests, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "*_test.go"))
	if err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp("", "waits-")
	if err != nil {
		return "", nil, err
	}
	overlay, err := writeCopies(dir, tests)
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return "-overlay=" + overlay, func() { _ = os.RemoveAll(dir) }, nil
}

// writeCopies writes the copies, and the file that the go command reads.
func writeCopies(dir string, tests []string) (string, error) {
	replace := map[string]string{}
	for _, name := range tests {
		source, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		scaled, found := scale(source, slower)
		if found == 0 {
			continue
		}
		replace[name] = filepath.Join(dir, filepath.Base(name))
		if err := os.WriteFile(replace[name], scaled, 0o644); err != nil {
			return "", err
		}
		fmt.Printf("%s: %d waits are %d times as long\n", filepath.Base(name), found, slower)
	}
	if len(replace) == 0 {
		return "", errors.New("no test has a wait of the known form: look at waits.go")
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o644)
}
