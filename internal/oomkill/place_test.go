package oomkill_test

import (
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/oomkill"
)

const (
	uidA = "0b6d0d7c-2b4e-4a51-9c8a-00000000000a"
	idA  = "4f1c5e"
)

// pods are a pod with containers by their runtime's IDs, and one of a manifest without them.
var pods = []signals.Pod{
	{UID: uidA, Namespace: "shop", Name: "cart", Containers: []signals.Container{{Name: "app", ID: idA}, {Name: "log", ID: "77aa"}}},
	{UID: "manifest", Namespace: "default", Name: "file", Containers: []signals.Container{{Name: "main"}}},
}

// place returns a place in a short form.
func place(p oomkill.Place, ours bool) string {
	if !ours {
		return "elsewhere"
	}
	text := p.Level.String() + " of"
	switch {
	case p.Pod != nil:
		text += " " + p.Pod.Key() + " " + p.Container
	case p.UID != "":
		text += " UID " + p.UID
	case p.Outside():
		text += " outside " + p.Cgroup
	default:
		text += " unknown"
	}
	return text
}

func TestNode_LocatesKill(t *testing.T) {
	const systemd = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0b6d0d7c_2b4e_4a51_9c8a_00000000000a.slice"
	const scope = systemd + "/cri-containerd-" + idA + ".scope"
	const kind = "/docker/9f8e"
	const inKind = kind + "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod0b6d0d7c_2b4e_4a51_9c8a_00000000000a.slice"
	machine, group := oomkill.Node{Cgroup: "/", Root: "/kubepods", Pods: pods}, oomkill.Node{Cgroup: "/node", Root: "/node/kubepods", Pods: pods}
	slices := oomkill.Node{Cgroup: "/", Root: "/kubepods.slice", Pods: pods}
	nested := oomkill.Node{Cgroup: "/", Root: "/kubelet.slice/kubelet-kubepods.slice", Pods: pods}
	for _, c := range []struct {
		node        *oomkill.Node
		limit, task string
		want        string
	}{
		{&machine, containerA, containerA, "container of shop/cart app"},
		{&machine, containerA, containerA + "/inner/more", "container of shop/cart app"},
		{&machine, containerA + "/inner", containerA + "/inner/more", "unknown of shop/cart app"}, // a limit that the container set itself
		{&machine, podA, podA + "/77aa", "pod of shop/cart log"},
		{&machine, podA, podA + "/pause", "pod of shop/cart "},
		{&machine, podA, podA, "pod of shop/cart "},
		{&machine, "/kubepods/burstable", containerA, "qos of shop/cart app"},
		{&machine, "/kubepods/other", "/kubepods/other/x", "unknown of outside /kubepods/other/x"},
		{&machine, "/kubepods", containerA, "pods of shop/cart app"},
		{&machine, "/kubepods", "/kubepods/podmanifest/main", "pods of default/file main"},
		{&machine, "/kubepods", "/kubepods/besteffort/podgone/x", "pods of UID gone"},
		{&machine, "", containerA, "node of shop/cart app"},
		{&machine, "", "/system.slice/sshd.service", "node of outside /system.slice/sshd.service"},
		{&machine, "/system.slice/cron.service", "/system.slice/cron.service", "unknown of outside /system.slice/cron.service"},
		{&machine, "", "/", "node of outside /"},
		{&machine, "/kubepods/podmanifest", containerA, "unknown of shop/cart app"}, // the process was moved
		{&machine, "", "", "unknown of unknown"},
		// A container with the cgroups of another node inside is that container.
		{&machine, containerA, containerA + "/kubepods/podmanifest/main", "container of shop/cart app"},
		{&machine, "", "/docker/1/kubepods/podelse/x", "elsewhere"},
		{&slices, scope, scope + "/container", "container of shop/cart app"},
		{&slices, systemd, systemd + "/crio-conmon-" + idA + ".scope", "pod of shop/cart "},
		{&slices, "/kubepods.slice/kubepods-burstable.slice", scope, "qos of shop/cart app"},
		{&slices, "/kubepods.slice", scope, "pods of shop/cart app"},
		{&group, "/node", "/node" + containerA, "node of shop/cart app"},
		{&group, "/node/kubepods", "/node" + containerA, "pods of shop/cart app"},
		{&group, "/", "/node" + containerA, "unknown of shop/cart app"}, // above the node
		{&group, "", "/node" + containerA, "unknown of shop/cart app"},  // the machine is more than the node
		{&group, "/node", "/node/daemon", "node of outside /node/daemon"},
		{&group, containerA, containerA, "elsewhere"},
		{&group, "/other", "/other", "elsewhere"},
		{&group, "", "", "elsewhere"},
		{&nested, inKind, inKind + "/cri-containerd-" + idA + ".scope", "pod of shop/cart app"},
		{&nested, kind, inKind + "/cri-containerd-" + idA + ".scope", "node of shop/cart app"},
		{&nested, kind + "/kubelet.slice/kubelet-kubepods.slice", inKind, "pods of shop/cart "},
		{&nested, "/docker", inKind, "unknown of shop/cart "},
		{&nested, "", inKind, "node of shop/cart "},
		{&nested, "", "/docker/other/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-podelse.slice/x", "elsewhere"},
		{&oomkill.Node{Cgroup: "/", Pods: pods}, containerA, containerA, "elsewhere"}, // the pods' cgroup is not known yet
	} {
		k := oomkill.Kill{LimitCgroup: c.limit, TaskCgroup: c.task}
		if got := place(c.node.Locate(&k)); got != c.want {
			t.Errorf("%q at %q on %s: %s, want %s", c.task, c.limit, c.node.Root, got, c.want)
		}
	}
	partial := oomkill.Kill{TaskCgroup: containerA, Partial: true}
	if got := place(machine.Locate(&partial)); got != "unknown of shop/cart app" {
		t.Errorf("a part of the machine's memory: %s", got)
	}
}

// TestNode_LocatesOnlyPodsOfPath checks that a place never names a pod of which the path of the process
// does not have the UID.
func TestNode_LocatesOnlyPodsOfPath(t *testing.T) {
	n := oomkill.Node{Cgroup: "/", Root: "/kubepods", Pods: pods}
	parts := []string{"", "/kubepods", "/burstable", "/pod" + uidA, "/podmanifest", "/" + idA, "/main", "/x", "/docker/1"}
	for _, a := range parts {
		for _, b := range parts {
			for _, c := range parts {
				for _, d := range parts {
					for _, limit := range []string{"", a, a + b, a + b + c, "/kubepods" + d} {
						k := oomkill.Kill{TaskCgroup: a + b + c + d, LimitCgroup: limit}
						p, ours := n.Locate(&k)
						if !ours || p.Pod == nil {
							continue
						}
						if want := "/pod" + p.Pod.UID; !strings.Contains(k.TaskCgroup, want) || p.Level == oomkill.PodLevel && !strings.Contains(limit, want) {
							t.Errorf("%+v: %+v", k, p)
						}
					}
				}
			}
		}
	}
}
