package chart_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	agentconfig "plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/agent/examine"
	"plimsoll.dev/plimsoll/internal/doctor"
	"plimsoll.dev/plimsoll/internal/kubeletconfig"
)

// besideDir has one page per system beside Plimsoll.
var besideDir = filepath.Join(docs, "how-to", "beside")

// foreignFields has the fields of other systems that the pages may use, by the version and the kind, as
// these systems document them. A * stands for any key.
var foreignFields = map[string]string{
	"karpenter.k8s.aws/v1 EC2NodeClass": `spec.amiSelectorTerms.alias spec.role spec.subnetSelectorTerms.tags.* spec.securityGroupSelectorTerms.tags.*
		spec.kubelet.evictionHard.* spec.kubelet.evictionSoft.* spec.kubelet.evictionSoftGracePeriod.*`,
	"cluster.x-k8s.io/v1beta2 MachineHealthCheck": `spec.clusterName spec.selector.matchLabels.* spec.checks.nodeStartupTimeoutSeconds
		spec.checks.unhealthyNodeConditions.type spec.checks.unhealthyNodeConditions.status spec.checks.unhealthyNodeConditions.timeoutSeconds
		spec.remediation.triggerIf.unhealthyLessThanOrEqualTo`,
	"remediation.medik8s.io/v1alpha1 NodeHealthCheck": `spec.minHealthy spec.selector.matchExpressions.key spec.selector.matchExpressions.operator
		spec.unhealthyConditions.type spec.unhealthyConditions.status spec.unhealthyConditions.duration
		spec.remediationTemplate.apiVersion spec.remediationTemplate.kind spec.remediationTemplate.name spec.remediationTemplate.namespace`,
	"descheduler/v1alpha2 DeschedulerPolicy": `profiles.name profiles.pluginConfig.name profiles.pluginConfig.args.excludedTaints
		profiles.pluginConfig.args.thresholds.* profiles.pluginConfig.args.targetThresholds.* profiles.plugins.deschedule.enabled profiles.plugins.balance.enabled`,
	"autoscaling.k8s.io/v1 VerticalPodAutoscaler": `spec.targetRef.apiVersion spec.targetRef.kind spec.targetRef.name spec.updatePolicy.updateMode
		spec.resourcePolicy.containerPolicies.containerName spec.resourcePolicy.containerPolicies.controlledResources
		spec.resourcePolicy.containerPolicies.controlledValues spec.resourcePolicy.containerPolicies.minAllowed.* spec.resourcePolicy.containerPolicies.maxAllowed.*`,
	"argoproj.io/v1alpha1 Application": `spec.project spec.source.repoURL spec.source.targetRevision spec.source.path spec.source.helm.valuesObject.*
		spec.destination.server spec.destination.namespace spec.ignoreDifferences.kind spec.ignoreDifferences.name spec.ignoreDifferences.namespace
		spec.ignoreDifferences.jsonPointers spec.syncPolicy.automated.prune spec.syncPolicy.automated.selfHeal
		spec.syncPolicy.managedNamespaceMetadata.labels.* spec.syncPolicy.syncOptions`,
}

// example matches a sample in a page: its language, and its text.
var example = regexp.MustCompile("(?s)```(yaml|json)\n(.*?)```")

// examples returns the samples of a page in a language.
func examples(t *testing.T, page, language string) (found []string) {
	t.Helper()
	for _, e := range example.FindAllStringSubmatch(text(t, filepath.Join(besideDir, page+".md")), -1) {
		if e[1] == language {
			found = append(found, e[2])
		}
	}
	if len(found) == 0 {
		t.Fatalf("%s.md has no example in %s", page, language)
	}
	return found
}

// object returns the only sample of a kind.
func object(t *testing.T, page, kind string, into any) {
	t.Helper()
	found := slices.DeleteFunc(examples(t, page, "yaml"), func(text string) bool { return !strings.Contains(text, "\nkind: "+kind+"\n") })
	if len(found) == 0 {
		t.Fatalf("%s.md has no %s", page, kind)
	}
	if err := yaml.Unmarshal([]byte(found[0]), into); err != nil {
		t.Fatal(err)
	}
}

// leaves adds the paths of the values of a document.
func leaves(found map[string]bool, path string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, below := range v {
			leaves(found, strings.TrimPrefix(path+"."+key, "."), below)
		}
	case []any:
		for _, below := range v {
			leaves(found, path, below)
		}
	default:
		found[path] = true
	}
}

// TestBeside_ExamplesHaveKnownFields checks the samples of the pages about other systems. One without
// a kind has values of the chart.
func TestBeside_ExamplesHaveKnownFields(t *testing.T) {
	helm := needTool(t, "helm")
	used := map[string]bool{}
	for _, page := range names(t, besideDir, ".md") {
		for _, e := range example.FindAllStringSubmatch(text(t, filepath.Join(besideDir, page+".md")), -1) {
			var content map[string]any
			if err := yaml.UnmarshalStrict([]byte(e[2]), &content); err != nil {
				t.Errorf("%s.md: %v in\n%s", page, err, e[2])
				continue
			}
			switch {
			case e[1] == "json": // TestBeside_NodeProblemDetector
			case content["kind"] == nil:
				helm.made(t, "--values="+sampleFile(t, e[2]))
			default:
				kind := fmt.Sprintf("%v %v", content["apiVersion"], content["kind"])
				used[kind] = true
				for path := range leavesOf(content) {
					if !slices.ContainsFunc(strings.Fields("apiVersion kind metadata.name metadata.namespace "+foreignFields[kind]), func(known string) bool {
						prefix, any := strings.CutSuffix(known, "*")
						return path == known || any && strings.HasPrefix(path, prefix)
					}) {
						t.Errorf("%s.md: %s has no documented field %s", page, kind, path)
					}
				}
			}
		}
	}
	for kind := range foreignFields {
		if !used[kind] {
			t.Errorf("no page has a %s", kind)
		}
	}
}

func leavesOf(content map[string]any) map[string]bool {
	found := map[string]bool{}
	leaves(found, "", content)
	return found
}

// sampleFile stores a sample in a file.
func sampleFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sample.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestBeside_KarpenterAgreesWithDefaults checks that the doctor finds no fault in the example's kubelet,
// beside an agent with the thresholds of the chart.
func TestBeside_KarpenterAgreesWithDefaults(t *testing.T) {
	var class struct {
		Spec struct{ Kubelet map[string]any }
	}
	object(t, "karpenter", "EC2NodeClass", &class)
	class.Spec.Kubelet["apiVersion"], class.Spec.Kubelet["kind"] = "kubelet.config.k8s.io/v1beta1", "KubeletConfiguration"
	file, err := yaml.Marshal(class.Spec.Kubelet)
	if err != nil {
		t.Fatal(err)
	}
	kubelet, err := kubeletconfig.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	c, err := agentconfig.ParseFile([]byte(find[*corev1.ConfigMap](t, needTool(t, "helm").made(t), "ConfigMap/plimsoll-agent").Data["agent.yaml"]))
	if err != nil {
		t.Fatal(err)
	}
	o, err := examine.Options(c, nil, nil, errors.New("none"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range doctor.Examine(doctor.Facts{Ours: o.Ours, Kubelet: doctor.Known(doctor.Kubelet{Present: true, Config: kubelet})}) {
		if strings.HasPrefix(f.Code, "kubelet-") {
			t.Errorf("%s: %s", f.Code, f.What)
		}
	}
}

// TestBeside_HealthChecksLeavePressureAlone checks that the doctor accepts the conditions of the examples,
// and that the page names its finding.
func TestBeside_HealthChecksLeavePressureAlone(t *testing.T) {
	var check struct {
		Spec struct {
			Checks struct {
				UnhealthyNodeConditions []struct {
					Type, Status   string
					TimeoutSeconds int
				}
			}
			UnhealthyConditions []struct{ Type, Status, Duration string }
		}
	}
	object(t, "cluster-api", "MachineHealthCheck", &check)
	pressure := 0
	for _, c := range check.Spec.Checks.UnhealthyNodeConditions {
		if strings.HasSuffix(c.Type, "Pressure") && c.Status == "True" {
			pressure++
			if c.TimeoutSeconds < 1800 {
				t.Errorf("%s for %d s: the doctor would report it", c.Type, c.TimeoutSeconds)
			}
		}
	}
	object(t, "cluster-api", "NodeHealthCheck", &check)
	for _, c := range check.Spec.UnhealthyConditions {
		if c.Type != "Ready" {
			t.Errorf("a NodeHealthCheck acts on %s", c.Type)
		}
	}
	known := slices.ContainsFunc(doctor.ClusterCodes(), func(c doctor.Code) bool { return c.Code == "node-repair-on-pressure" })
	if page := text(t, filepath.Join(besideDir, "cluster-api.md")); pressure == 0 || !known || !strings.Contains(page, "`node-repair-on-pressure`") || !strings.Contains(page, "30 minutes") {
		t.Errorf("%d conditions of pressure; the finding is known: %v", pressure, known)
	}
}

// TestBeside_DeschedulerIgnoresPressure checks that the example excludes the taints of kubelets' conditions
// and those of agents.
func TestBeside_DeschedulerIgnoresPressure(t *testing.T) {
	policy := strings.Join(examples(t, "descheduler", "yaml"), "")
	for _, prefix := range []string{corev1.TaintNodeMemoryPressure, corev1.TaintNodeDiskPressure, corev1.TaintNodePIDPressure} {
		for _, taint := range []string{prefix, "plimsoll.dev/" + strings.TrimPrefix(prefix, "node.kubernetes.io/")} {
			if !strings.Contains(policy, "- "+taint+"\n") {
				t.Errorf("the example does not exclude %s", taint)
			}
			if !strings.Contains(text(t, filepath.Join(docs, "reference", "annotations-conditions-events.md")), "`"+strings.TrimPrefix(taint, "node.kubernetes.io/")) && strings.HasPrefix(taint, "plimsoll.dev/") {
				t.Errorf("no agent sets %s", taint)
			}
		}
	}
}

// TestBeside_AutoscalerOnlyAdvisesAgents checks that the example for agents names the chart's DaemonSet,
// and replaces none of them.
func TestBeside_AutoscalerOnlyAdvisesAgents(t *testing.T) {
	all := needTool(t, "helm").made(t)
	for _, e := range examples(t, "vpa", "yaml") {
		var autoscaler struct {
			Metadata struct{ Namespace string }
			Spec     struct {
				TargetRef    struct{ Kind, Name string }
				UpdatePolicy struct{ UpdateMode string }
			}
		}
		if err := yaml.Unmarshal([]byte(e), &autoscaler); err != nil {
			t.Fatal(err)
		}
		if s := autoscaler.Spec; s.TargetRef.Kind == "DaemonSet" {
			find[*appsv1.DaemonSet](t, all, "DaemonSet/"+s.TargetRef.Name)
			if s.UpdatePolicy.UpdateMode != "Off" || autoscaler.Metadata.Namespace != namespace {
				t.Errorf("%+v", autoscaler)
			}
			return
		}
	}
	t.Error("there is no example for the agents")
}

// TestBeside_NodeProblemDetector checks the monitor of the page: its fields, its patterns, and that it has
// no type of kubelet or agent.
func TestBeside_NodeProblemDetector(t *testing.T) {
	var monitor struct {
		Plugin     string `json:"plugin"`
		LogPath    string `json:"logPath"`
		Lookback   string `json:"lookback"`
		BufferSize int    `json:"bufferSize"`
		Source     string `json:"source"`
		Conditions []struct {
			Type, Reason, Message string
		} `json:"conditions"`
		Rules []struct {
			Type, Condition, Reason, Pattern string
		} `json:"rules"`
	}
	decoder := json.NewDecoder(strings.NewReader(examples(t, "node-problem-detector", "json")[0]))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&monitor); err != nil {
		t.Fatal(err)
	}
	types := map[string]bool{"": true}
	for _, c := range monitor.Conditions {
		types[c.Type] = true
		if strings.HasSuffix(c.Type, "Pressure") || c.Type == "Ready" {
			t.Errorf("%s is a condition of the kubelet", c.Type)
		}
	}
	for _, r := range monitor.Rules {
		if !types[r.Condition] || (r.Type == "permanent") != (r.Condition != "") || r.Reason == "OOMKilling" {
			t.Errorf("%+v", r)
		}
		if _, err := regexp.Compile(r.Pattern); err != nil {
			t.Error(err)
		}
	}
}

// argoHooks are the hooks of Helm in the table of the page about Argo CD.
var argoHooks = []string{"pre-delete", "pre-install", "pre-upgrade", "test"}

// TestBeside_ArgoCD renders the chart as the Application of the page does.
func TestBeside_ArgoCD(t *testing.T) {
	var application struct {
		Metadata struct{ Name string }
		Spec     struct {
			Source struct {
				Path string
				Helm struct{ ValuesObject map[string]any }
			}
			Destination       struct{ Namespace string }
			IgnoreDifferences []struct{ Kind, Name, Namespace string }
			SyncPolicy        struct {
				SyncOptions              []string
				ManagedNamespaceMetadata struct{ Labels map[string]string }
			}
		}
	}
	object(t, "argo-cd", "Application", &application)
	spec := application.Spec
	if _, err := os.Stat(filepath.Join(deploy, "..", spec.Source.Path, "Chart.yaml")); err != nil {
		t.Error(err)
	}
	values, err := yaml.Marshal(spec.Source.Helm.ValuesObject)
	if err != nil {
		t.Fatal(err)
	}
	all := needTool(t, "helm").made(t, "--values="+sampleFile(t, string(values)))
	if spec.Destination.Namespace != namespace || application.Metadata.Name != release {
		t.Errorf("%s in %s", application.Metadata.Name, spec.Destination.Namespace)
	}
	for _, d := range spec.IgnoreDifferences {
		if found := find[*corev1.ConfigMap](t, all, d.Kind+"/"+d.Name); len(found.Data) > 0 || found.Namespace != d.Namespace {
			t.Errorf("%s has data %v in %s", d.Name, found.Data, found.Namespace)
		}
	}
	if !slices.Contains(spec.SyncPolicy.SyncOptions, "RespectIgnoreDifferences=true") || spec.SyncPolicy.ManagedNamespaceMetadata.Labels["pod-security.kubernetes.io/enforce"] != "privileged" {
		t.Errorf("%+v", spec.SyncPolicy)
	}
	hooks := map[string]bool{}
	for _, o := range all {
		if described, is := o.(interface{ GetAnnotations() map[string]string }); is {
			for hook := range strings.SplitSeq(described.GetAnnotations()["helm.sh/hook"], ",") {
				hooks[hook] = true
			}
		}
	}
	delete(hooks, "")
	if got := slices.Sorted(maps.Keys(hooks)); !slices.Equal(got, argoHooks) {
		t.Errorf("the chart has the hooks %q, the page %q", got, argoHooks)
	}
	page := text(t, filepath.Join(besideDir, "argo-cd.md"))
	for _, hook := range argoHooks {
		if !strings.Contains(page, hook) {
			t.Errorf("the page does not name the hook %s", hook)
		}
	}
}
