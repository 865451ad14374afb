package fakeapiserver

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Size is the size of a cluster.
type Size struct {
	Nodes  int
	Images int // listed by each node
	Pods   int // on each node
}

// zones of the nodes, in order.
var zones = []string{"eu-1a", "eu-1b", "eu-1c"}

// NodeName returns the name of the i-th node.
func NodeName(i int) string { return fmt.Sprintf("node-%06d", i) }

// number parses the number at the end of a generated name.
func number(name string) (int, bool) {
	i, err := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
	return i, err == nil
}

func uid(kind, i int) types.UID {
	return types.UID(fmt.Sprintf("%08x-57a1-4b0c-9d3e-%012x", kind, i))
}

// managed returns an entry of managedFields of realistic size.
func managed(by string, at metav1.Time, fields ...string) metav1.ManagedFieldsEntry {
	var text strings.Builder
	text.WriteString(`{"f:metadata":{"f:labels":{".":{}}}`)
	for _, f := range fields {
		fmt.Fprintf(&text, `,"f:%s":{".":{},"f:lastHeartbeatTime":{},"f:message":{},"f:status":{},"f:type":{}}`, f)
	}
	text.WriteByte('}')
	return metav1.ManagedFieldsEntry{
		Manager: by, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &at,
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(text.String()),
	}
}

// nodePattern returns the common part of all nodes. The objects behind its pointers are shared
// by all nodes and never written.
func nodePattern(images int, born metav1.Time) corev1.Node {
	amounts := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("16"), corev1.ResourceMemory: resource.MustParse("65806312Ki"),
		corev1.ResourcePods: resource.MustParse("110"), corev1.ResourceEphemeralStorage: resource.MustParse("203056560Ki"),
		"hugepages-1Gi": resource.MustParse("0"), "hugepages-2Mi": resource.MustParse("0"),
	}
	n := corev1.Node{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{
			CreationTimestamp: born,
			Annotations:       map[string]string{"node.alpha.kubernetes.io/ttl": "0", "volumes.kubernetes.io/controller-managed-attach-detach": "true"},
			ManagedFields: []metav1.ManagedFieldsEntry{
				managed("kube-controller-manager", born, "spec", "taints"),
				managed("kubelet", born, "conditions", "addresses", "allocatable", "capacity", "images", "nodeInfo", "daemonEndpoints", "memory", "disk", "pid", "ready"),
			},
		},
		Status: corev1.NodeStatus{
			Capacity: amounts, Allocatable: amounts,
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: 10250}},
			NodeInfo: corev1.NodeSystemInfo{
				MachineID: strings.Repeat("4d", 16), SystemUUID: "ec2f5c7e-57a1-4b0c-9d3e-6bd4c1a60f11", BootID: "a2b41f60-57a1-4b0c-9d3e-6bd4c1a60f11",
				KernelVersion: "6.12.41-cloud-amd64", OSImage: "Debian GNU/Linux 13 (trixie)", ContainerRuntimeVersion: "containerd://2.1.4",
				KubeletVersion: "v1.36.3", OperatingSystem: "linux", Architecture: "amd64",
			},
		},
	}
	for i := range images {
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{
			Names: []string{
				fmt.Sprintf("registry.example.com/team-%02d/service-%02d@sha256:%064x", i%7, i, i),
				fmt.Sprintf("registry.example.com/team-%02d/service-%02d:v1.%d.0", i%7, i, i),
			},
			SizeBytes: int64(40<<20 + i),
		})
	}
	return n
}

// node returns the i-th node with the status of its kubelet's last heartbeat.
func (c *Cluster) node(i int, last time.Time) *corev1.Node {
	n, name := c.nodePattern, NodeName(i)
	n.Name, n.UID = name, uid(1, i)
	n.Labels = map[string]string{
		corev1.LabelHostname: name, corev1.LabelTopologyZone: zones[i%len(zones)], corev1.LabelTopologyRegion: "eu-1",
		corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64", "beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64",
		corev1.LabelInstanceTypeStable: "m16", "node.example.com/pool": "general",
	}
	n.Spec.ProviderID = "example:///" + name
	address := fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}, {Type: corev1.NodeHostName, Address: name}}
	report(&n, last)
	return &n
}

// report sets the status of a healthy node.
func report(n *corev1.Node, last time.Time) {
	at, since := metav1.NewTime(last.Truncate(time.Second)), n.CreationTimestamp
	condition := func(t corev1.NodeConditionType, s corev1.ConditionStatus, reason, message string) corev1.NodeCondition {
		for _, old := range n.Status.Conditions {
			if old.Type == t && old.Status == s {
				since = old.LastTransitionTime
			}
		}
		return corev1.NodeCondition{Type: t, Status: s, LastHeartbeatTime: at, LastTransitionTime: since, Reason: reason, Message: message}
	}
	n.Status.Conditions = []corev1.NodeCondition{
		condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
		condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
		condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
		condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status"),
	}
}
