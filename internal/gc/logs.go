package gc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"plimsoll.dev/plimsoll/internal/cri"
)

// removePodLogs removes the log directories of removed pods without a container or sandbox that
// could write into them. It removes nothing until all pods are known.
func (c *Collector) removePodLogs(ctx context.Context, f *faults) error {
	if c.options.PodLogs == "" {
		return nil
	}
	root, err := os.OpenRoot(c.options.PodLogs) // no link leads out of it
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for logs of pods that are gone: %w", err)
	}
	defer func() { _ = root.Close() }()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return fmt.Errorf("look for logs of pods that are gone: read %s: %w", c.options.PodLogs, err)
	}
	sandboxes, containers, err := c.listed(ctx)
	if err != nil {
		return fmt.Errorf("list containers that still write logs: %w", err)
	}
	for _, name := range goneLogs(entries, sandboxes, containers, c.states()) {
		if err := root.RemoveAll(name); err != nil {
			f.add(fmt.Errorf("remove the logs of a pod that is gone in %s: %w", c.options.PodLogs, err))
			continue
		}
		c.log.Info("Removed logs of a deleted pod", "directory", name)
	}
	return nil
}

// goneLogs returns the directories of pods that neither the owners nor the runtime know.
func goneLogs(entries []fs.DirEntry, sandboxes []cri.Sandbox, containers []cri.Container, state func(uid string) PodState) []string {
	inUse := map[string]bool{}
	for i := range sandboxes {
		inUse[sandboxes[i].UID] = true
	}
	for i := range containers {
		inUse[containers[i].PodUID] = true
	}
	var gone []string
	for _, e := range entries {
		uid, ok := podOfLogs(e.Name())
		if ok && e.IsDir() && !inUse[uid] && state(uid) == Unknown {
			gone = append(gone, e.Name())
		}
	}
	return gone
}

// podOfLogs parses NAMESPACE_NAME_UID, none of which contains an underscore.
func podOfLogs(directory string) (uid string, ok bool) {
	parts := strings.Split(directory, "_")
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" || parts[2] == "" {
		return "", false
	}
	return parts[2], true
}
