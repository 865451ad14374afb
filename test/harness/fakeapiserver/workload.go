package fakeapiserver

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// daemonSets is the number of DaemonSets; the first pods of every node belong to them.
const daemonSets = 3

func daemonName(i int) string { return fmt.Sprintf("daemon-%d", i) }

func daemonSet(i int, born metav1.Time) *appsv1.DaemonSet {
	labels := map[string]string{"app": daemonName(i)}
	return &appsv1.DaemonSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: daemonName(i), UID: uid(3, i), CreationTimestamp: born, Labels: labels},
		Spec:       appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}}},
	}
}

// lease returns the lease of the i-th node with the given renewTime.
func (c *Cluster) lease(i int, renewed time.Time) *coordinationv1.Lease {
	name, seconds, at := NodeName(i), int32(40), metav1.NewMicroTime(renewed.Truncate(time.Microsecond))
	return &coordinationv1.Lease{
		TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: corev1.NamespaceNodeLease, Name: name, UID: uid(4, i), CreationTimestamp: c.born,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: name, UID: uid(1, i)}},
			ManagedFields:   c.leaseFields,
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: &seconds, RenewTime: &at},
	}
}

// AddLease stores a lease, as a client's request to create it does. The lease must not be changed
// any more.
func (c *Cluster) AddLease(l *coordinationv1.Lease) {
	l.TypeMeta = metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(c.leases, l, added)
}

// podNames returns the namespace and the name of the i-th pod.
func (c *Cluster) podNames(i int) (namespace, name string) {
	if k := i % c.size.Pods; k < daemonSets {
		return "system", fmt.Sprintf("%s-%07d", daemonName(k), i)
	}
	service := i % 101
	return fmt.Sprintf("team-%02d", service%7), fmt.Sprintf("service-%02d-6f9d8c7b54-%07d", service, i)
}

func (c *Cluster) pod(i int) *corev1.Pod {
	p, yes := c.podPattern, true
	p.Namespace, p.Name = c.podNames(i)
	p.UID, p.Spec.NodeName = uid(2, i), NodeName(i/c.size.Pods)
	owner := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: p.Name[:len(p.Name)-8], UID: uid(5, i%101), Controller: &yes, BlockOwnerDeletion: &yes}
	p.Labels = map[string]string{"app.kubernetes.io/name": p.Name[:10], "app.kubernetes.io/part-of": p.Namespace, "pod-template-hash": "6f9d8c7b54"}
	if k := i % c.size.Pods; k < daemonSets {
		owner.Kind, owner.Name, owner.UID = "DaemonSet", daemonName(k), uid(3, k)
		p.Labels = map[string]string{"app": owner.Name}
	}
	p.OwnerReferences = []metav1.OwnerReference{owner}
	p.Status.PodIP = fmt.Sprintf("100.%d.%d.%d", i>>16, i>>8&255, i&255)
	p.Status.PodIPs = []corev1.PodIP{{IP: p.Status.PodIP}}
	return &p
}

// podPattern returns the common part of all pods. The objects behind its pointers are shared by
// all pods and never written.
func podPattern(born metav1.Time) corev1.Pod {
	seconds, grace, yes := int64(300), int64(30), true
	tolerates := func(key string) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds}
	}
	probe := &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(8080), Scheme: corev1.URISchemeHTTP}},
		PeriodSeconds: 10, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: 3,
	}
	condition := func(t corev1.PodConditionType) corev1.PodCondition {
		return corev1.PodCondition{Type: t, Status: corev1.ConditionTrue, LastTransitionTime: born}
	}
	amounts := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m"), corev1.ResourceMemory: resource.MustParse("512Mi")}
	return corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			CreationTimestamp: born, Annotations: map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": "8080"},
			ManagedFields: []metav1.ManagedFieldsEntry{
				managed("kube-controller-manager", born, "containers", "enableServiceLinks", "restartPolicy", "schedulerName", "volumes"),
				managed("kubelet", born, "conditions", "containerStatuses", "hostIP", "phase", "podIP", "podIPs", "startTime"),
			},
		},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyAlways, DNSPolicy: corev1.DNSClusterFirst, ServiceAccountName: "default", SchedulerName: "default-scheduler",
			TerminationGracePeriodSeconds: &grace, EnableServiceLinks: &yes,
			Tolerations: []corev1.Toleration{tolerates(corev1.TaintNodeNotReady), tolerates(corev1.TaintNodeUnreachable)},
			Volumes:     []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "config"}}}}},
			Containers: []corev1.Container{{
				Name: "service", Image: "registry.example.com/team-01/service-01:v1.1.0", ImagePullPolicy: corev1.PullIfNotPresent,
				Ports:     []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}},
				Env:       []corev1.EnvVar{{Name: "LOG_LEVEL", Value: "info"}, {Name: "CONFIG", Value: "/etc/config/service.yaml"}, {Name: "GOMAXPROCS", Value: "2"}},
				Resources: corev1.ResourceRequirements{Requests: amounts, Limits: amounts}, LivenessProbe: probe, ReadinessProbe: probe,
				VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/config", ReadOnly: true}},
			}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, HostIP: "10.0.0.1", StartTime: &born, QOSClass: corev1.PodQOSGuaranteed,
			Conditions: []corev1.PodCondition{condition(corev1.PodInitialized), condition(corev1.PodReady), condition(corev1.ContainersReady), condition(corev1.PodScheduled)},
			ContainerStatuses: []corev1.ContainerStatus{{
				Name: "service", Ready: true, Started: &yes, Image: "registry.example.com/team-01/service-01:v1.1.0",
				ImageID:     fmt.Sprintf("registry.example.com/team-01/service-01@sha256:%064x", 1),
				ContainerID: fmt.Sprintf("containerd://%064x", 2), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: born}},
			}},
		},
	}
}
