// Package buildinfo has what the Go toolchain recorded about this program. The linker sets its version,
// which each program has in its package main.
package buildinfo

import "runtime/debug"

// Revision returns the commit of the source: the one that the linker set, else that of the build
// information, else "unknown".
func Revision(linked string) string {
	if linked != "" {
		return linked
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return "unknown"
}
