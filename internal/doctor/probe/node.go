package probe

import (
	"cmp"
	"context"
	"sync"
	"time"

	"plimsoll.dev/plimsoll/internal/cri"
	"plimsoll.dev/plimsoll/internal/doctor"
	"plimsoll.dev/plimsoll/internal/kube/api"
)

// Patience bounds the duration of a probe.
const Patience = 10 * time.Second

// NodeOptions are the inputs of Node, and the configuration of the agent.
type NodeOptions struct {
	Ours doctor.Ours
	// NodeName is the name of the Node object.
	NodeName string
	// ProcRoot and CgroupRoot are the mount points of the host's /proc and /sys/fs/cgroup, HostRoot
	// that of its root directory. HostRoot precedes the paths below.
	ProcRoot, CgroupRoot, HostRoot string
	// KubeletConfig and KubeletRoot are the kubelet's configuration file and directory, as paths of
	// the host.
	KubeletConfig, KubeletRoot string
	// KubeletCgroupRoot is the kubelet's cgroup root, if configured for the agent; empty: it is
	// read.
	KubeletCgroupRoot string
	// StateFile is the agent's path of it; empty: the agent stores no state.
	StateFile string
	// KernelLog is the device of the kernel's log; /dev/kmsg if it is empty.
	KernelLog string
	// Runtime is nil without a usable runtime; RuntimeFault is the reason, unless the agent is
	// configured without one.
	Runtime      *cri.Client
	RuntimeFault string
	// Client is the client of the API server; nil: the agent is configured without one.
	Client api.Interface
	// Images, if set, returns the images of the node's active pods with access to the node itself;
	// otherwise the pods are listed from the API server.
	Images func(context.Context) ([]string, error)
	// Rights are those that the configuration needs.
	Rights []doctor.Right
	// AskKubelet enables reading the kubelet's configuration through the API server. This includes
	// flags and drop-in files, and needs a right (get nodes/proxy) that no agent has. If it is
	// refused, the files are read.
	AskKubelet bool
	// Now reads the node's clock; nil is time.Now.
	Now func() time.Time
}

// Node reads the facts of this node, within [Patience].
func Node(ctx context.Context, o NodeOptions) doctor.Facts {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	if o.Now == nil {
		o.Now = time.Now
	}
	f := doctor.Facts{Node: o.NodeName, Ours: o.Ours}
	var group sync.WaitGroup
	group.Go(func() { o.kernel(&f) })
	group.Go(func() { f.Runtime = o.runtime(ctx) })
	if o.Client != nil {
		f.Server = &doctor.Server{}
		o.server(ctx, f.Server, &group)
	}
	group.Wait()
	f.Kubelet = o.kubelet(ctx, &f) // the kubelet is found by its process and by the Node
	f.Pods = o.pods(cmp.Or(o.KubeletCgroupRoot, f.Kubelet.Value.Config.CgroupRoot))
	return f
}
