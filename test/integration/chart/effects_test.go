package chart_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	agentconfig "plimsoll.dev/plimsoll/agent/config"
	controllerconfig "plimsoll.dev/plimsoll/lifecycle/config"
)

// effects has another setting of each documented value, before which others may be set that make it
// relevant.
var effects = map[string][]string{
	"fullnameOverride":                  {`"mark"`},
	"image.repository":                  {`"r/p"`},
	"image.tag":                         {`"2"`},
	"image.digest":                      {`"sha256:` + strings.Repeat("0", 64) + `"`},
	"image.pullPolicy":                  {`"Always"`},
	"imagePullSecrets":                  {`[{"name":"registry"}]`},
	"commonLabels":                      {`{"a":"b"}`},
	"commonAnnotations":                 {`{"a":"b"}`},
	"podLabels":                         {`{"a":"b"}`},
	"podAnnotations":                    {`{"a":"b"}`},
	"podSecurityContext.runAsNonRoot":   {`null`},
	"podSecurityContext.runAsUser":      {`null`},
	"podSecurityContext.runAsGroup":     {`7`},
	"podSecurityContext.seccompProfile": {`{"type":"Unconfined"}`},
	"hostNetwork":                       {`true`},
	"extraEnv":                          {`[{"name":"A","value":"b"}]`},
	"rbac.create":                       {`false`},
	"resourceQuota.enabled":             {`false`},
	"networkPolicy.enabled":             {`false`},
	"networkPolicy.from":                {`[]`},

	"agent.enabled":                                     {`false`},
	"agent.image":                                       {`{"tag":"2"}`},
	"agent.labels":                                      {`{"a":"b"}`},
	"agent.annotations":                                 {`{"a":"b"}`},
	"agent.podLabels":                                   {`{"a":"b"}`},
	"agent.podAnnotations":                              {`{"a":"b"}`},
	"agent.serviceAccount.create":                       {`false`, `agent.serviceAccount.name="nodes"`},
	"agent.serviceAccount.name":                         {`"nodes"`},
	"agent.serviceAccount.annotations":                  {`{"a":"b"}`},
	"agent.extraArgs":                                   {`["-v=2"]`},
	"agent.config.dryRun":                               {`false`},
	"agent.config.evictionHard":                         {`{"memory.available":"1Gi"}`},
	"agent.config.evictionsPerHour":                     {`5`},
	"agent.arming.all":                                  {`"armed"`},
	"agent.hostPID":                                     {`false`},
	"agent.capabilities":                                {`["KILL"]`},
	"agent.seccompProfile":                              {`{"type":"Unconfined"}`},
	"agent.appArmorProfile":                             {`{"type":"RuntimeDefault"}`},
	"agent.seLinuxOptions":                              {`{"type":"spc_t"}`},
	"agent.securityContextConstraints":                  {`"privileged"`},
	"agent.kernelLog":                                   {`true`},
	"agent.host.cgroup":                                 {`"/x"`},
	"agent.host.kubelet":                                {`"/x"`},
	"agent.host.podLogs":                                {`"/x"`},
	"agent.host.runtimeSocket":                          {`"/x"`},
	"agent.host.runtimeRoot":                            {`"/x"`},
	"agent.host.state":                                  {`"/x"`},
	"agent.host.recording":                              {`"/x"`},
	"agent.host.decisions":                              {`"/x"`},
	"agent.extraVolumes":                                {`[{"name":"x","emptyDir":{}}]`},
	"agent.extraVolumeMounts":                           {`[{"name":"x","mountPath":"/x"}]`},
	"agent.resources":                                   {`{"limits":{"memory":"1Gi"}}`},
	"agent.priorityClassName":                           {`"x"`},
	"agent.tolerations":                                 {`[]`},
	"agent.nodeSelector":                                {`{"a":"b"}`},
	"agent.affinity":                                    {`{"nodeAffinity":{}}`},
	"agent.updateStrategy.type":                         {`"OnDelete"`},
	"agent.updateStrategy.rollingUpdate.maxUnavailable": {`1`},
	"agent.terminationGracePeriodSeconds":               {`7`},

	"controller.enabled":                       {`false`},
	"controller.replicas":                      {`3`},
	"controller.image":                         {`{"tag":"2"}`},
	"controller.labels":                        {`{"a":"b"}`},
	"controller.annotations":                   {`{"a":"b"}`},
	"controller.podLabels":                     {`{"a":"b"}`},
	"controller.podAnnotations":                {`{"a":"b"}`},
	"controller.serviceAccount.create":         {`false`, `controller.serviceAccount.name="lifecycle"`},
	"controller.serviceAccount.name":           {`"lifecycle"`},
	"controller.serviceAccount.annotations":    {`{"a":"b"}`},
	"controller.extraArgs":                     {`["-v=2"]`},
	"controller.config.mode":                   {`"replace"`},
	"controller.extraVolumes":                  {`[{"name":"x","emptyDir":{}}]`},
	"controller.extraVolumeMounts":             {`[{"name":"x","mountPath":"/x"}]`},
	"controller.resources":                     {`{"limits":{"memory":"1Gi"}}`},
	"controller.priorityClassName":             {`"x"`},
	"controller.tolerations":                   {`[]`},
	"controller.nodeSelector":                  {`{"a":"b"}`},
	"controller.affinity":                      {`null`},
	"controller.podDisruptionBudget":           {`{"maxUnavailable":2}`},
	"controller.terminationGracePeriodSeconds": {`7`},

	"policies.evictedStaysEvicted":    {`false`},
	"policies.evictedKeepsReason":     {`false`, mutating},
	"policies.agentOwnNode":           {`false`},
	"policies.kubeletKeepsConditions": {`true`, mutating},

	"metrics.readers":        {`[{"kind":"User","name":"prometheus"}]`},
	"metrics.authorization":  {`{"credentials":{"name":"x","key":"y"}}`, `metrics.serviceMonitor.enabled=true`, monitors},
	"metrics.tlsConfig":      {`{"serverName":"x"}`, `metrics.serviceMonitor.enabled=true`, monitors},
	"metrics.serviceMonitor": {`{"enabled":true}`, monitors},
	"metrics.podMonitor":     {`{"enabled":true}`, `metrics.authorization={"credentials":{"name":"x","key":"y"}}`, "--api-versions=monitoring.coreos.com/v1/PodMonitor"},
	"metrics.rules.enabled":  {`true`, rules},
	"metrics.rules.labels":   {`{"a":"b"}`, `metrics.rules.enabled=true`, rules},
	"metrics.rules.runbooks": {`"https://x"`, `metrics.rules.enabled=true`, rules},
	"dashboards.enabled":     {`true`},
	"dashboards.namespace":   {`"x"`, `dashboards.enabled=true`},
	"dashboards.labels":      {`{"a":"b"}`, `dashboards.enabled=true`},
	"dashboards.annotations": {`{"a":"b"}`, `dashboards.enabled=true`},

	"configCheck.enabled":        {`false`},
	"configCheck.timeoutSeconds": {`7`},
	"cleanup.onUninstall":        {`false`},
	"cleanup.timeoutSeconds":     {`7`},
}

const (
	monitors = "--api-versions=monitoring.coreos.com/v1/ServiceMonitor"
	rules    = "--api-versions=monitoring.coreos.com/v1/PrometheusRule"
)

// TestValues_HaveEffects checks that each documented value changes what is installed.
func TestValues_HaveEffects(t *testing.T) {
	helm := needTool(t, "helm")
	values, _ := documented(t)
	before := map[string]string{}
	for _, v := range values {
		path := strings.Join(v.path, ".")
		change, there := effects[path]
		switch {
		case v.hasRows(values) && !there:
			continue
		case !there:
			t.Errorf("no other setting of %s is given here", path)
			continue
		}
		others := strings.Join(change[1:], " ")
		if before[others] == "" {
			manifest, err := helm.template(t, change[1:]...)
			if err != nil {
				t.Fatal(err)
			}
			before[others] = manifest
		}
		after, err := helm.template(t, append(slices.Clone(change[1:]), path+"="+change[0])...)
		if err != nil {
			t.Errorf("%s=%s: %v", path, change[0], err)
		}
		if err == nil && before[others] == after {
			t.Errorf("%s=%s has no effect", path, change[0])
		}
	}
	for path := range effects {
		if !slices.ContainsFunc(values, func(v value) bool { return strings.Join(v.path, ".") == path }) {
			t.Errorf("%s is not documented in values.yaml", path)
		}
	}
}

// TestConventions_RefuseInvalidValues covers the values for accounts, labels, images and arguments.
func TestConventions_RefuseInvalidValues(t *testing.T) {
	helm := needTool(t, "helm")
	for _, c := range []struct {
		value string
		words []string // of the error
	}{
		{`agent.serviceAccount.create=false`, []string{"agent.serviceAccount.name", "default"}},
		{`controller.serviceAccount={"create":false}`, []string{"controller.serviceAccount.name"}},
		{`agent.serviceAccount={"create":false,"name":"default"}`, []string{"every other pod", "agent.serviceAccount.name"}},
		{`controller.serviceAccount.name="plimsoll-agent"`, []string{"the account of the agent", "controller.serviceAccount.name", "Set another name"}},
		{`agent.serviceAccount.name="plimsoll-cleanup"`, []string{"the Job of cleanup.onUninstall"}},
		{`controller.serviceAccount.name="plimsoll-test"`, []string{"the Job of helm test"}},
		{`agent.serviceAccount.name="Agent"`, []string{"/agent/serviceAccount/name"}},
		{`agent.serviceAccount.name="a' || true || 'b"`, []string{"/agent/serviceAccount/name"}},
		{`agent.serviceAccount.nmae="a"`, []string{"nmae"}},
		{`controller.serviceAccount.annotations={"helm.sh/hook":"test"}`, []string{"annotations"}},
		{`rbac.creat=false`, []string{"creat"}},
		{`rbac.create="no"`, []string{"/rbac/create"}},
		{`commonLabels={"app.kubernetes.io/name":"x"}`, []string{"commonLabels"}},
		{`podLabels={"app.kubernetes.io/component":"agent"}`, []string{"podLabels"}},
		{`agent.podLabels={"app.kubernetes.io/instance":"x"}`, []string{"podLabels"}},
		{`controller.labels={"helm.sh/chart":"x"}`, []string{"labels"}},
		{`commonAnnotations={"helm.sh/hook":"test"}`, []string{"commonAnnotations"}},
		{`commonAnnotations={"meta.helm.sh/release-name":"x"}`, []string{"commonAnnotations"}},
		{`agent.podAnnotations={"plimsoll.dev/config":"x"}`, []string{"podAnnotations"}},
		{`agent.annotations.a=1`, []string{"/agent/annotations/a"}},
		{`agent.image={"repo":"r/p"}`, []string{"repo"}},
		{`controller.image.digest="sha256:1"`, []string{"/controller/image/digest"}},
		{`agent.extraArgs=["verbose"]`, []string{"/agent/extraArgs/0"}},
		{`agent.extraArgs="-v=2"`, []string{"/agent/extraArgs"}},
		{`agent.extraArgs=["-v=2","--soft-eviction=direct"]`, []string{"--soft-eviction=direct", "set agent.config.softEviction instead"}},
		{`agent.extraArgs=["--pressure-taint"]`, []string{"set agent.config.pressureTaint instead"}},
		{`agent.extraArgs=["--config=/x"]`, []string{"set agent.config instead"}},
		{`controller.extraArgs=["--mode=replace"]`, []string{"set controller.config.mode instead"}},
		{`podSecurityContext.runAsUser=0`, []string{"/podSecurityContext/runAsUser"}},
		{`podSecurityContext.runAsUser="nobody"`, []string{"/podSecurityContext/runAsUser"}},
		{`podSecurityContext.runAsRoot=true`, []string{"runAsRoot"}},
		{`nonRootUser=1000`, []string{"nonRootUser"}},
	} {
		if _, err := helm.template(t, c.value); refused(err, c.words...) != nil {
			t.Errorf("%s: %v", c.value, refused(err, c.words...))
		}
	}
	_, err := helm.template(t, `agent.enabled=false`, `controller.serviceAccount.name="plimsoll-agent"`)
	if fault := refused(err, "the account of the agent"); fault != nil {
		t.Errorf("the account of agents under systemd for the controller: %v", fault)
	}
}

// read matches the fields of a configuration that a template reads or sets.
var read = regexp.MustCompile(`\$(agent|controller|parsed)\.([a-z][A-Za-z]*)|Values\.(agent|controller)\.config\.([A-Za-z]+)|(?m)^  "([a-z][A-Za-z]*)" `)

// TestExtraArgs_DerivedFieldsAreRefused checks that a flag cannot override a field that other objects of
// the chart follow from, and that the flags which the chart refuses exist.
func TestExtraArgs_DerivedFieldsAreRefused(t *testing.T) {
	refusals := text(t, filepath.Join(chart, "templates", "refusals.yaml"))
	lists := map[string]string{}
	for _, component := range []string{"agent", "controller"} {
		found := regexp.MustCompile(`(?m)^  "` + component + `" \(list (.*?)\)`).FindStringSubmatch(refusals)
		if found == nil {
			t.Fatalf("templates/refusals.yaml has no list of fields of the %s", component)
		}
		lists[component] = found[1]
	}
	others := strings.Fields("apiVersion kind agent controller")
	for _, name := range names(t, filepath.Join(chart, "templates"), "l") { // .yaml and .tpl
		for _, found := range read.FindAllStringSubmatch(text(t, filepath.Join(chart, "templates", name+"l")), -1) {
			field := found[2] + found[4] + found[5]
			if slices.Contains(others, field) {
				continue
			}
			if !strings.Contains(lists["agent"]+lists["controller"], `"`+field+`"`) {
				t.Errorf("templates/%sl reads %s: add it to the fields of extraArgs in templates/refusals.yaml", name, field)
			}
		}
	}
	agent, controller := pflag.NewFlagSet("agent", pflag.ContinueOnError), pflag.NewFlagSet("controller", pflag.ContinueOnError)
	agentconfig.AddFlags(agent)
	controllerconfig.AddFlags(controller)
	for component, flags := range map[string]*pflag.FlagSet{"agent": agent, "controller": controller} {
		for field := range strings.FieldsSeq(lists[component]) {
			field = strings.Trim(field, `"`)
			flag := strings.ToLower(regexp.MustCompile(`[A-Z]`).ReplaceAllString(field, "-$0"))
			if field != "config" && flags.Lookup(flag) == nil {
				t.Errorf("templates/refusals.yaml refuses --%s of the %s, which does not exist", flag, component)
			}
		}
	}
}

// TestArtifactHub_Annotations checks the annotations of Chart.yaml: the image is the one that the chart
// installs, and every value has the form that Artifact Hub reads.
func TestArtifactHub_Annotations(t *testing.T) {
	file := filepath.Join(chart, "Chart.yaml")
	content := text(t, file)
	var meta struct {
		AppVersion  string
		Annotations map[string]string
	}
	if err := yaml.Unmarshal([]byte(content), &meta); err != nil {
		t.Fatal(err)
	}
	_, defaults := documented(t)
	image := lookup(t, defaults, []string{"image", "repository"}).(string) + ":" + meta.AppVersion
	line := regexp.MustCompile(`(?m)^      image: .*$`)
	if n := len(line.FindAllString(content, -1)); n != 1 {
		t.Fatalf("%s has %d images, want one", file, n)
	}
	agrees(t, file, line.ReplaceAllLiteralString(content, "      image: "+image))
	for name, form := range map[string]any{
		"artifacthub.io/images": &[]struct{ Name, Image string }{}, "artifacthub.io/links": &[]struct{ Name, URL string }{},
	} {
		if err := yaml.UnmarshalStrict([]byte(meta.Annotations[name]), form); err != nil || meta.Annotations[name] == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if meta.Annotations["artifacthub.io/license"] != "Apache-2.0" || !strings.Contains(text(t, filepath.Join(deploy, "..", "LICENSE")), "Apache License") {
		t.Errorf("license %s is not that of LICENSE", meta.Annotations["artifacthub.io/license"])
	}
	for name := range meta.Annotations {
		if !slices.Contains(strings.Fields("category images license links"), strings.TrimPrefix(name, "artifacthub.io/")) {
			t.Errorf("%s is not known to Artifact Hub", name)
		}
	}
}
