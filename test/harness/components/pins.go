package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// pins are the versions of a module directory, and the checksums of all dependencies.
type pins struct {
	name     string // part of the cache path: describes its content
	mod, sum []byte
	compiler string
}

func readPins(dir string) (*pins, error) {
	p := &pins{name: dir}
	if dir == "." {
		p.name = "kubernetes"
	}
	var err error
	if p.mod, err = os.ReadFile(filepath.Join(dir, "go.mod")); err != nil {
		return nil, fmt.Errorf("%w: run this in test/harness/components", err)
	}
	if p.sum, err = os.ReadFile(filepath.Join(dir, "go.sum")); err != nil {
		return nil, err
	}
	env := exec.Command("go", "env", "GOVERSION", "GOOS", "GOARCH")
	env.Dir = dir
	out, err := env.Output()
	if err != nil {
		return nil, fmt.Errorf("ask the go command for its version: %w", err)
	}
	p.compiler = string(out)
	return p, nil
}

// version returns the required version of a module, without the leading v.
func (p *pins) version(module string) (string, error) {
	for line := range strings.Lines(string(p.mod)) {
		words := strings.Fields(line)
		if len(words) >= 2 && words[0] == module {
			return strings.TrimPrefix(words[1], "v"), nil
		}
	}
	return "", fmt.Errorf("go.mod of %s requires no %s", p.name, module)
}

// cache returns the directory of binaries with these pins and flags.
func (p *pins) cache(flags []string) (string, error) {
	root := os.Getenv("PLIMSOLL_COMPONENTS")
	if root == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("%w: or set PLIMSOLL_COMPONENTS to a directory for the programs", err)
		}
		root = filepath.Join(user, "plimsoll", "components")
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return "", err
	}
	all := fmt.Sprintf("%s\x00%s\x00%s\x00%q", p.mod, p.sum, p.compiler, flags)
	return filepath.Join(root, fmt.Sprintf("%s-%.6x", p.name, sha256.Sum256([]byte(all)))), nil
}
