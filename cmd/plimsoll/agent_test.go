package main

import (
	"strings"
	"testing"
)

func TestAgentHelp_NamesWatchedResources(t *testing.T) {
	status, help, _ := plimsoll("", "agent", "--help")
	about, _, _ := strings.Cut(help, "Usage:")
	for _, words := range []string{"memory", "disks", "inodes", "PIDs", "disarmed", "--dry-run=false"} {
		if status != 0 || !strings.Contains(about, words) {
			t.Errorf("no %q in\n%s", words, about)
		}
	}
}
