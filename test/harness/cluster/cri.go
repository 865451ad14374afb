package cluster

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Labels by which a kubelet identifies in the runtime the pod of a container.
const (
	labelPodName      = "io.kubernetes.pod.name"
	labelPodNamespace = "io.kubernetes.pod.namespace"
	labelPodUID       = "io.kubernetes.pod.uid"
	labelContainer    = "io.kubernetes.container.name"
)

// run performs the kubelet's steps: cgroup, directories, sandbox, containers, status.
func (p *Pod) run(ctx context.Context) error {
	if err := p.makeCgroup(); err != nil {
		return err
	}
	mounts, err := p.makeVolumes()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(p.Logs, 0o755); err != nil {
		return err
	}
	if err := p.runSandbox(ctx); err != nil {
		return err
	}
	for i := range p.Object.Spec.Containers {
		c := &p.Object.Spec.Containers[i]
		if err := p.runContainer(ctx, c, mounts); err != nil {
			return fmt.Errorf("run container %s: %w", c.Name, err)
		}
	}
	if p.node.cluster.APIServer == nil {
		return nil
	}
	return p.reportRunning(ctx)
}

// ofSandboxes is the key of sandbox attempts in the map of attempts by container name.
const ofSandboxes = ""

func (p *Pod) runSandbox(ctx context.Context) error {
	started, err := p.node.Runtime.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: p.sandboxConfig()})
	if err != nil {
		return fmt.Errorf("run its sandbox: %w", err)
	}
	p.Sandbox = started.PodSandboxId
	return nil
}

// reviveSandbox runs a new sandbox if the pod's sandbox has exited.
func (p *Pod) reviveSandbox(ctx context.Context) error {
	answer, err := p.node.Runtime.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: p.Sandbox})
	if err != nil || answer.Status.State == runtimeapi.PodSandboxState_SANDBOX_READY {
		return err
	}
	p.attempts[ofSandboxes]++
	return p.runSandbox(ctx)
}

// Restart starts a container once more without a kubelet, as a kubelet would after its exit,
// in a new sandbox if the pod's sandbox has exited. Exited containers remain in the runtime.
// The pod status does not change. Returns an error if the container does not exist or the
// runtime rejects a request.
func (p *Pod) Restart(ctx context.Context, container string) error {
	places, err := p.makeVolumes()
	if err != nil {
		return err
	}
	if err := p.reviveSandbox(ctx); err != nil {
		return fmt.Errorf("revive pod %s: %w", p.Object.Name, err)
	}
	for i := range p.Object.Spec.Containers {
		if c := &p.Object.Spec.Containers[i]; c.Name == container {
			p.attempts[container]++
			if err := p.runContainer(ctx, c, places); err != nil {
				return fmt.Errorf("start container %s of pod %s again: %w", container, p.Object.Name, err)
			}
			return nil
		}
	}
	return fmt.Errorf("start container %s of pod %s again: there is none", container, p.Object.Name)
}

// makeVolumes creates the pod's volumes and returns their paths on the host.
func (p *Pod) makeVolumes() (map[string]string, error) {
	places := map[string]string{}
	for _, v := range p.Object.Spec.Volumes {
		switch {
		case v.HostPath != nil:
			places[v.Name] = v.HostPath.Path
		case v.EmptyDir != nil && v.EmptyDir.Medium == corev1.StorageMediumDefault:
			places[v.Name] = p.EmptyDir(v.Name)
			if err := os.MkdirAll(places[v.Name], 0o777); err != nil {
				return nil, err
			}
		default:
			return nil, fmt.Errorf("volume %s: without a kubelet there are only hostPath and emptyDir on disk", v.Name)
		}
	}
	return places, nil
}

func (p *Pod) labels() map[string]string {
	labels := map[string]string{
		labelPodName: p.Object.Name, labelPodNamespace: p.Object.Namespace, labelPodUID: p.UID(),
	}
	for k, v := range p.Object.Labels {
		labels[k] = v
	}
	return labels
}

// annotations returns the pod's annotations and the one by which a kubelet records the pod's
// source.
func (p *Pod) annotations() map[string]string {
	all := map[string]string{}
	maps.Copy(all, p.Object.Annotations)
	if p.node.cluster.APIServer != nil {
		all["kubernetes.io/config.source"] = "api"
	}
	return all
}

func (p *Pod) sandboxConfig() *runtimeapi.PodSandboxConfig {
	return &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: p.Object.Name, Namespace: p.Object.Namespace, Uid: p.UID(), Attempt: p.attempts[ofSandboxes]},
		LogDirectory: p.Logs,
		Labels:       p.labels(),
		Annotations:  p.annotations(),
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent: p.Cgroup,
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
				NamespaceOptions: &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE, Pid: runtimeapi.NamespaceMode_CONTAINER},
			},
		},
	}
}

func (p *Pod) runContainer(ctx context.Context, c *corev1.Container, places map[string]string) error {
	config, err := p.containerConfig(c, places)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(p.Logs, c.Name), 0o755); err != nil {
		return err
	}
	made, err := p.node.Runtime.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{PodSandboxId: p.Sandbox, Config: config, SandboxConfig: p.sandboxConfig()})
	if err != nil {
		return err
	}
	p.Containers[c.Name] = made.ContainerId
	_, err = p.node.Runtime.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: made.ContainerId})
	return err
}

func (p *Pod) containerConfig(c *corev1.Container, places map[string]string) (*runtimeapi.ContainerConfig, error) {
	attempt := p.attempts[c.Name]
	config := &runtimeapi.ContainerConfig{
		Metadata:    &runtimeapi.ContainerMetadata{Name: c.Name, Attempt: attempt},
		Image:       &runtimeapi.ImageSpec{Image: c.Image, UserSpecifiedImage: c.Image},
		Command:     c.Command,
		Args:        c.Args,
		WorkingDir:  c.WorkingDir,
		Labels:      p.labels(),
		Annotations: map[string]string{"io.kubernetes.container.restartCount": strconv.Itoa(int(attempt))},
		LogPath:     filepath.Join(c.Name, strconv.Itoa(int(attempt))+".log"),
		Linux: &runtimeapi.LinuxContainerConfig{
			Resources:       containerResources(c),
			SecurityContext: &runtimeapi.LinuxContainerSecurityContext{NamespaceOptions: &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE, Pid: runtimeapi.NamespaceMode_CONTAINER}},
		},
	}
	config.Labels[labelContainer] = c.Name
	for _, e := range c.Env {
		value, err := p.value(e)
		if err != nil {
			return nil, err
		}
		config.Envs = append(config.Envs, &runtimeapi.KeyValue{Key: e.Name, Value: []byte(value)})
	}
	for _, m := range c.VolumeMounts {
		place, found := places[m.Name]
		if !found {
			return nil, fmt.Errorf("there is no volume %q", m.Name)
		}
		config.Mounts = append(config.Mounts, &runtimeapi.Mount{
			ContainerPath: m.MountPath, HostPath: filepath.Join(place, m.SubPath), Readonly: m.ReadOnly,
		})
	}
	return config, nil
}

// value returns the value of a variable: the literal or one of the pod's fields.
func (p *Pod) value(e corev1.EnvVar) (string, error) {
	if e.ValueFrom == nil {
		return e.Value, nil
	}
	fields := map[string]string{
		"metadata.uid": p.UID(), "metadata.name": p.Object.Name, "metadata.namespace": p.Object.Namespace, "spec.nodeName": NodeName,
	}
	if ref := e.ValueFrom.FieldRef; ref != nil {
		if value, found := fields[ref.FieldPath]; found {
			return value, nil
		}
	}
	return "", fmt.Errorf("variable %s: without a kubelet it can be one of metadata.uid, metadata.name, metadata.namespace and spec.nodeName", e.Name)
}

// containerResources returns the limits in the form that runc expects.
func containerResources(c *corev1.Container) *runtimeapi.LinuxContainerResources {
	const sharesPerCPU = 1024
	return &runtimeapi.LinuxContainerResources{
		MemoryLimitInBytes: c.Resources.Limits.Memory().Value(),
		CpuShares:          max(2, c.Resources.Requests.Cpu().MilliValue()*sharesPerCPU/1000),
	}
}

func (p *Pod) removeSandboxes(ctx context.Context) error {
	sandboxes, err := p.node.Runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{
		Filter: &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{labelPodUID: p.UID()}},
	})
	if err != nil {
		return fmt.Errorf("list the sandboxes of pod %s: %w", p.Object.Name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, Patience(removeWait))
	defer cancel()
	for _, sandbox := range sandboxes.Items {
		if err := await(ctx, func(ctx context.Context) error { return p.removeOne(ctx, sandbox.Id) }); err != nil {
			return err
		}
	}
	return p.removeCgroup()
}

// removeWait bounds the time in which the runtime detects the exit of processes that a third
// party killed. It removes nothing before.
const removeWait = 20 * time.Second

func (p *Pod) removeOne(ctx context.Context, sandbox string) error {
	if _, err := p.node.Runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: sandbox}); err != nil {
		return fmt.Errorf("stop a sandbox of pod %s: %w", p.Object.Name, err)
	}
	if _, err := p.node.Runtime.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: sandbox}); err != nil {
		return fmt.Errorf("remove a sandbox of pod %s: %w", p.Object.Name, err)
	}
	return nil
}
