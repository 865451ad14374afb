// Package cluster starts real Kubernetes components on loopback, as many as a test needs: etcd,
// kube-apiserver, kube-controller-manager, kube-scheduler, containerd with runc, and a kubelet.
// `make components` builds them.
//
//	c := cluster.Make(t, cluster.Options{Components: cluster.APIServer | cluster.Containerd})
//	api := kubernetes.NewForConfigOrDie(c.Admin())                   // or c.As("system:node:localhost", "system:nodes")
//	token, err := c.Token(ctx, "plimsoll-system", "plimsoll-agent")  // creates the service account
//	path, err := c.Kubeconfig(c.Front.Config(c.Bearer(token)))       // for a binary, through the fault-injecting front
//	pod, err := c.Node.AddPod(ctx, cluster.Hog("greedy", "fill 100MiB at 20MiB/s"))
//	err = pod.Do(ctx, "fill 50MiB")                                  // commands for the running hog (package hog)
//	err = c.Node.Import(ctx, cluster.Image{Name: "plimsoll.test/big:1", Size: 50 << 20, Files: 100, Runs: true})
//	c.Node.Socket, c.Node.Cgroup, c.Node.KubeletRoot, c.Node.PodLogs, c.Node.Runtime (CRI), c.Node.Sandbox.Usage()
//	c.APIServer.Pause(); .Resume(); .Stop(ctx); .Kill(); .Restart(ctx) // likewise c.Node.Containerd, c.Node.Kubelet …
//	c.Front.Answer(429, func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/eviction") }, "Retry-After: 1")
//	c.Front.Freeze(func(r *http.Request) bool { return r.URL.Query().Get("watch") == "true" }) // until c.Front.Thaw()
//	controller, err := c.Launch(ctx, cluster.Program{Name: "plimsoll", Command: …}) // a component like the others
//	c.Front.Refuse(); c.Front.Drop(); c.Front.Stall(); c.Front.Delay(d); c.Front.Pass() // likewise c.Link, c.Node.Link (CRI)
//	summary, err := c.Node.GetFromKubelet(ctx, "/stats/summary")
//
// Duties and invariants:
//
//   - [Start] returns when every requested component is ready, or an error with the last
//     lines of the log; in that case all processes and files are removed.
//   - Components run in a cgroup of their own with a memory limit, pods in a second one, the
//     node's ([Node.Cgroup]), with at most 2 GiB. The agent is started with the node's cgroup.
//     A kubelet measures the machine, and evicts by the machine's memory.
//   - On a machine with systemd that exists for the test only (`vm node`, PLIMSOLL_VM=systemd)
//     the cgroup driver is systemd, and the node has the layout of kubeadm, kind or k3s
//     (LAYOUT). It has no private directories and sysctls there. Waits are
//     longer by PLIMSOLL_VM_SLOWER. Its control plane runs on the host ([Cluster.Export],
//     CONTROL_PLANE).
//   - containerd, shims and kubelet share a mount namespace. /run, /var/lib and the other fixed
//     places they write to are private in it. The sysctls that a kubelet sets are files in it:
//     the machine's sysctls never change. The node's own file systems are also mounted outside
//     until Close. A program that needs every mount of the kubelet (an emptyDir in memory) is
//     started through [Node.Enter].
//   - [Cluster.Close] ends all processes, including shims and containers, and removes cgroups,
//     mounts and files. After SIGKILL of the owner, [Sweep] does this; [Need] and [Make] call it.
//     Clusters of several processes can run concurrently.
//   - Without a kubelet [Node.AddPod] performs the kubelet's steps of a pod start through CRI,
//     and nothing else: the pod is never restarted or removed. With a kubelet it waits until
//     the kubelet has done it.
//   - Pods use the host's network and images made here ([PauseImage], [HogImage],
//     [Node.Import]); no image is ever pulled. Workloads of a controller take their template
//     from [Node.Prepare].
package cluster
