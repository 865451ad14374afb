package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

// wholeMachine reports whether systemd runs a machine that exists for this test only
// (test/harness/vm). Then the cluster is the machine's: the cgroup driver is systemd, and
// components have no private directories and sysctls.
func wholeMachine() bool { return os.Getenv("PLIMSOLL_VM") == "systemd" }

// makeCgroup creates the node's cgroup. If the node is a machine, its sandbox is the slice that a
// kubelet creates and limits.
func (n *Node) makeCgroup(o NodeOptions) (err error) {
	switch {
	case !wholeMachine():
		if n.Sandbox, err = sandbox.NewNode(nodeName, o.Memory, sandbox.PidsMax(o.Pids)); err == nil {
			n.Cgroup = n.Sandbox.Path()
		}
	case len(n.layout.slices) == 0:
		n.Cgroup = "/"
		if n.Sandbox, err = sandbox.NewSlice("kubepods.slice", 0, 0); err == nil && o.Pids > 0 {
			err = limitPids(o.Pids)
		}
	default:
		slice := strings.Join(n.layout.slices, "-") + ".slice"
		if n.Sandbox, err = sandbox.NewSlice(slice, o.Memory, o.Pids); err == nil {
			n.Cgroup = n.Sandbox.Path()
		}
	}
	return err
}

// limitPids sets the machine's limit of tasks to a number beyond those that run already.
func limitPids(more int64) error {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return err
	}
	// proc_loadavg(5): the fourth field is RUNNING/TASKS.
	var load [3]float64
	var running, tasks int64
	if _, err := fmt.Sscanf(string(text), "%f %f %f %d/%d", &load[0], &load[1], &load[2], &running, &tasks); err != nil {
		return fmt.Errorf("read /proc/loadavg: %w", err)
	}
	return os.WriteFile("/proc/sys/kernel/pid_max", []byte(strconv.FormatInt(tasks+more, 10)), 0)
}

// podCgroup returns the directory that a kubelet creates for a pod. systemd nests slices by
// their names: a-b.slice is inside a.slice, so that dashes of a UID become underscores.
func (n *Node) podCgroup(class corev1.PodQOSClass, uid string) string {
	if !wholeMachine() {
		return filepath.Join(n.Cgroup, "kubepods", qosDirectory[class], "pod"+uid)
	}
	names := append(slices.Clone(n.layout.slices), "kubepods")
	if qosDirectory[class] != "" {
		names = append(names, qosDirectory[class])
	}
	names = append(names, "pod"+strings.ReplaceAll(uid, "-", "_"))
	path := "/"
	for i := range names {
		path = filepath.Join(path, strings.Join(names[:i+1], "-")+".slice")
	}
	return path
}

// kubeletCgroups returns the kubelet's fields for the node's cgroup and driver.
func (n *Node) kubeletCgroups() map[string]any {
	fields := map[string]any{"cgroupDriver": "cgroupfs", "cgroupRoot": n.Cgroup}
	if wholeMachine() {
		fields["cgroupDriver"] = "systemd"
		fields["cgroupRoot"] = "/" + strings.Join(n.layout.slices, "/")
	}
	return fields
}
