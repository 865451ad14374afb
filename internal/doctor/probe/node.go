package probe

import (
	"cmp"
	"context"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"

	"plimsoll.dev/plimsoll/internal/cri"
	"plimsoll.dev/plimsoll/internal/doctor"
)

// Patience is how long a look may take.
const Patience = 10 * time.Second

// NodeOptions say where to look, and what the agent is configured to do.
type NodeOptions struct {
	Ours doctor.Ours
	// NodeName is that of the Node object.
	NodeName string
	// ProcRoot and CgroupRoot are where the host's /proc and /sys/fs/cgroup are
	// mounted, HostRoot its root directory: it comes before the paths below.
	ProcRoot, CgroupRoot, HostRoot string
	// KubeletConfig and KubeletRoot are the kubelet's configuration file and
	// directory, as paths of the host.
	KubeletConfig, KubeletRoot string
	// KubeletCgroupRoot is the kubelet's cgroup root, if the agent was given one; empty:
	// it is read.
	KubeletCgroupRoot string
	// StateFile is as the agent sees it; empty: the agent keeps no state.
	StateFile string
	// Runtime is nil where there is none to be used; RuntimeFault is why, unless the
	// agent was told to do without one.
	Runtime      *cri.Client
	RuntimeFault string
	// Client speaks to the API server; nil: the agent is to do without one.
	Client kubernetes.Interface
	// Images, if set, returns the images of the node's active pods with access to the
	// node itself; otherwise the API server is asked for the pods.
	Images func(context.Context) ([]string, error)
	// Rights are those that the configuration needs.
	Rights []doctor.Right
	// AskKubelet has the kubelet asked, through the API server, what it is configured
	// to do: that counts flags and drop-in files, and needs a right (get nodes/proxy)
	// that no agent has. Where it is refused, the files are read.
	AskKubelet bool
	// Now reads the node's clock; nil is time.Now.
	Now func() time.Time
}

// Node looks at this node. It takes no longer than [Patience].
func Node(ctx context.Context, o NodeOptions) doctor.Facts {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	if o.Now == nil {
		o.Now = time.Now
	}
	f := doctor.Facts{Node: o.NodeName, Ours: o.Ours}
	var crew sync.WaitGroup
	crew.Go(func() { o.kernel(&f) })
	crew.Go(func() { f.Runtime = o.runtime(ctx) })
	if o.Client != nil {
		f.Server = &doctor.Server{}
		o.server(ctx, f.Server, &crew)
	}
	crew.Wait()
	f.Kubelet = o.kubelet(ctx, &f) // it is found by its process and by the Node
	f.Pods = o.pods(cmp.Or(o.KubeletCgroupRoot, f.Kubelet.Value.Config.CgroupRoot))
	return f
}
