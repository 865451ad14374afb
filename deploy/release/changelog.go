package main

import (
	"errors"
	"fmt"
	"strings"
)

const (
	changelogFile = "CHANGELOG.md"
	unreleased    = "Unreleased"
)

// section returns the text below the heading of a version. It is false if there is no such heading.
func section(changelog, version string) (text string, found bool) {
	var out strings.Builder
	for line := range strings.Lines(changelog) {
		if strings.HasPrefix(line, "## ") {
			if found {
				break
			}
			found = strings.HasPrefix(line, "## ["+version+"]")
			continue
		}
		if found {
			out.WriteString(line)
		}
	}
	return strings.TrimSpace(out.String()), found
}

// withSection returns the changelog with a section for a version: the changes that were unreleased. It is unchanged
// if it has the section already. Returns an error if there are no changes.
func withSection(changelog, version, date string) (string, error) {
	if _, found := section(changelog, version); found {
		return changelog, nil
	}
	switch changes, found := section(changelog, unreleased); {
	case !found:
		return "", fmt.Errorf("%s has no section ## [%s]", changelogFile, unreleased)
	case changes == "":
		return "", fmt.Errorf("the section ## [%s] of %s is empty: there is nothing to release", unreleased, changelogFile)
	}
	heading := "## [" + unreleased + "]\n"
	return strings.Replace(changelog, heading, heading+"\n## ["+version+"] - "+date+"\n", 1), nil
}

// notes returns the changes of a version for its readers. A version without a section is not released yet: its changes are
// the unreleased ones. Returns an error if there are none, or if a tagged version has no section.
func notes(changelog, version string, tagged bool) (string, error) {
	text, found := section(changelog, version)
	if !found && tagged {
		return "", fmt.Errorf("%s has no section ## [%s]: run make release VERSION=%s before the tag is set", changelogFile, version, version)
	}
	if !found {
		text, _ = section(changelog, unreleased)
	}
	if text == "" {
		return "", errors.New(changelogFile + " has no changes")
	}
	return text + "\n", nil
}
