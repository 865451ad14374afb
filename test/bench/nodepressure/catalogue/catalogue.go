// Package catalogue has the incidents and contestants that are part of the program, and reads others from
// files. A file is parsed strictly, and identified by its hash.
package catalogue

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"plimsoll.dev/plimsoll/test/bench/nodepressure/spec"
)

//go:embed incidents/*.yaml contestants/*.yaml
var files embed.FS

// Incident is an incident with its file.
type Incident struct {
	spec.Incident
	Hash string // SHA-256 of the file, the first 12 digits
}

// Contestant is a contestant with its file.
type Contestant struct {
	spec.Contestant
	Hash string
}

// Incidents returns the incidents of a list: names of the catalogue, or paths of files, separated by
// commas. An empty list means all of the catalogue. Returns the faults of a file.
func Incidents(list string) (all []Incident, err error) {
	err = each("incidents", list, func(text []byte, hash string) (string, error) {
		i, err := spec.ParseIncident(text)
		all = append(all, Incident{i, hash})
		return i.Name, err
	})
	return all, err
}

// Contestants returns the contestants of a list, see [Incidents].
func Contestants(list string) (all []Contestant, err error) {
	err = each("contestants", list, func(text []byte, hash string) (string, error) {
		c, err := spec.ParseContestant(text)
		all = append(all, Contestant{c, hash})
		return c.Name, err
	})
	return all, err
}

// each passes the text of every file of a list to a function, which returns the name in it.
func each(kind, list string, parse func(text []byte, hash string) (name string, err error)) error {
	known, err := names(kind)
	if err != nil {
		return err
	}
	chosen := known
	if list != "" {
		chosen = strings.Split(list, ",")
	}
	seen := map[string]bool{}
	for _, name := range chosen {
		text, err := load(kind, name, known)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(text)
		inside, err := parse(text, hex.EncodeToString(sum[:])[:12])
		if err != nil {
			return fmt.Errorf("%s of %s:\n%w", name, kind, err)
		}
		if slices.Contains(known, name) && name != inside {
			return fmt.Errorf("%s of %s: its name is %s: rename the file", name, kind, inside)
		}
		if seen[inside] {
			return fmt.Errorf("two %s have the name %s", kind, inside)
		}
		seen[inside] = true
	}
	return nil
}

// names lists the files of the catalogue in the order of their names.
func names(kind string) (all []string, err error) {
	entries, err := files.ReadDir(kind)
	for _, e := range entries {
		all = append(all, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	slices.Sort(all)
	return all, err
}

func load(kind, name string, known []string) ([]byte, error) {
	if slices.Contains(known, name) {
		return files.ReadFile(path.Join(kind, name+".yaml"))
	}
	if !strings.ContainsAny(name, "/.") {
		return nil, fmt.Errorf("no %q among the %s: use %s, or the path of a file", name, kind, strings.Join(known, ", "))
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, spec.MaxFile+1))
	if err == nil && len(text) > spec.MaxFile {
		err = errors.New("the file is too large")
	}
	return text, err
}
