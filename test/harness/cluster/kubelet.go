package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// kubeletDefaults returns a configuration without evictions and without garbage collection. A
// test enables what it needs.
func (n *Node) kubeletDefaults(port, health int) map[string]any {
	pki := func(name string) string { return n.path("pki", name) }
	return map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"address": n.kubeletAddress, "port": port, "readOnlyPort": 0,
		"healthzBindAddress": "127.0.0.1", "healthzPort": health,
		"failCgroupV1": false, "failSwapOn": false,
		"cgroupsPerQOS": true, "enforceNodeAllocatable": []string{"pods"},
		"oomScoreAdj":              0, // lower values need CAP_SYS_RESOURCE
		"containerRuntimeEndpoint": "unix://" + n.Socket,
		"podLogsDir":               n.PodLogs, "staticPodPath": "", "volumePluginDir": n.path("flexvolume"), "resolvConf": n.path("resolv.conf"),
		"makeIPTablesUtilChains": false, "localStorageCapacityIsolation": true,
		"imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99,
		"evictionHard": map[string]string{
			"memory.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%", "imagefs.inodesFree": "0%",
		},
		"evictionPressureTransitionPeriod": "5s",
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false}, "webhook": map[string]any{"enabled": true},
			"x509": map[string]any{"clientCAFile": pki("ca.crt")},
		},
		"authorization": map[string]any{"mode": "Webhook"},
		"tlsCertFile":   pki("server.crt"), "tlsPrivateKeyFile": pki("server.key"),
	}
}

// startKubelet starts the kubelet and waits until its node is ready for pods.
func (n *Node) startKubelet(ctx context.Context) error {
	address, ports, err := kubeletEndpoint()
	if err != nil {
		return err
	}
	n.kubeletAddress, n.kubeletPorts = address, ports
	if err := n.writeKubeletConfig(); err != nil {
		return err
	}
	user := n.cluster.As("system:node:"+NodeName, "system:nodes")
	if n.cluster.options.Node.KubeletLinked {
		user = n.cluster.Link.Config(user)
	}
	kubeconfig, err := n.cluster.Kubeconfig(user)
	if err != nil {
		return err
	}
	n.KubeletURL = "https://127.0.0.1:" + ports[0]
	wrap, err := n.wrapKubelet()
	if err != nil {
		return err
	}
	args := []string{"--config=" + n.KubeletConfig, "--kubeconfig=" + kubeconfig, "--hostname-override=" + NodeName, "--root-dir=" + n.KubeletRoot, "--cert-dir=" + n.path("pki"),
		"--v=2"} // starts and deaths of containers are in its log
	if n.layout.dropIns != "" {
		args[0] = "--config-dir=" + n.KubeletConfig
	}
	n.Kubelet, err = n.cluster.component(Kubelet, "kubelet", n.ready, wrap, args...)
	if err != nil {
		return err
	}
	n.kubeletHealth = answers(n.cluster.trusting(), "http://127.0.0.1:"+ports[1]+"/healthz")
	if err := n.Kubelet.start(ctx); err != nil {
		return err
	}
	return n.untaint(ctx)
}

// Reconfigure restarts the kubelet with changed configuration fields and waits until its node
// is ready again. A nil field is reset to the default of [NodeOptions]. Returns an error if the
// node is not ready in time.
func (n *Node) Reconfigure(ctx context.Context, fields map[string]any) error {
	config := maps.Clone(n.cluster.options.Node.KubeletConfig)
	if config == nil {
		config = map[string]any{}
	}
	maps.Copy(config, fields)
	maps.DeleteFunc(config, func(_ string, value any) bool { return value == nil })
	n.cluster.options.Node.KubeletConfig = config
	if err := n.writeKubeletConfig(); err != nil {
		return err
	}
	return n.Kubelet.Restart(ctx)
}

func (n *Node) writeKubeletConfig() error {
	var port, health int
	if _, err := fmt.Sscan(n.kubeletPorts[0]+" "+n.kubeletPorts[1], &port, &health); err != nil {
		return err
	}
	config := n.kubeletDefaults(port, health)
	maps.Copy(config, n.kubeletCgroups())
	maps.Copy(config, n.cluster.options.Node.KubeletConfig)
	text, err := yaml.Marshal(config)
	if err != nil {
		return err
	}
	n.KubeletConfig = cmp.Or(n.layout.dropIns, n.path("kubelet.yaml"))
	file := n.KubeletConfig
	if n.layout.dropIns != "" {
		file = filepath.Join(n.layout.dropIns, "00-k3s-defaults.conf")
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(n.path("resolv.conf"), nil, 0o644)); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}

// ready checks the health of the kubelet, its server, and the readiness of the node in the API
// server, which may be that of the kubelet before a restart.
func (n *Node) ready(ctx context.Context) error {
	if err := n.kubeletHealth(ctx); err != nil {
		return err
	}
	if _, err := n.GetFromKubelet(ctx, "/healthz"); err != nil {
		return err
	}
	clients, err := n.cluster.Clients()
	if err != nil {
		return err
	}
	node, err := clients.CoreV1().Nodes().Get(ctx, NodeName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("node %s is not ready: %v", NodeName, node.Status.Conditions)
}

// GetFromKubelet returns the response to a GET request to the kubelet's server as the
// administrator, with a path such as /stats/summary or /metrics/resource. Returns an error for
// a status code other than 200.
func (n *Node) GetFromKubelet(ctx context.Context, path string) ([]byte, error) {
	client, err := rest.HTTPClientFor(n.cluster.Admin())
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, n.KubeletURL+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s%s: %s: %s", n.KubeletURL, path, response.Status, text)
	}
	return text, err
}
