package clusterprobe_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"plimsoll.dev/plimsoll/internal/doctor"
	"plimsoll.dev/plimsoll/internal/doctor/clusterprobe"
	"plimsoll.dev/plimsoll/internal/kube/api"
)

const (
	groupsOf      = `{"kind":"APIGroupList","groups":[{"name":"apps","versions":[{"version":"v1"}]}%s]}`
	clusterAPI    = `,{"name":"cluster.x-k8s.io","versions":[{"version":"v1beta2"},{"version":"v1beta1"}]}`
	oldClusterAPI = `,{"name":"cluster.x-k8s.io","versions":[{"version":"v1beta1"},{"version":"v1alpha4"}]}`
	openShift     = `,{"name":"machine.openshift.io","versions":[{"version":"v1beta1"},{"version":"v1"}]}`
	medik8s       = `,{"name":"remediation.medik8s.io","versions":[{"version":"v1alpha1"}]}`

	clusterPath = "/apis/cluster.x-k8s.io/v1beta2/machinehealthchecks"
	oldPath     = "/apis/cluster.x-k8s.io/v1beta1/machinehealthchecks"
	shiftPath   = "/apis/machine.openshift.io/v1beta1/machinehealthchecks"
	medikPath   = "/apis/remediation.medik8s.io/v1alpha1/nodehealthchecks"
)

// list returns a list of health checks with these specs.
func list(next string, specs ...string) string {
	var items []string
	for i, spec := range specs {
		items = append(items, fmt.Sprintf(`{"metadata":{"name":"c%d","namespace":"n"},"spec":%s}`, i, spec))
	}
	return fmt.Sprintf(`{"metadata":{"continue":%q},"items":[%s]}`, next, strings.Join(items, ","))
}

func TestCluster_ReadsHealthChecks(t *testing.T) {
	const (
		newSpec  = `{"clusterName":"c","checks":{"unhealthyNodeConditions":[{"type":"Ready","status":"False","timeoutSeconds":300},{"type":"MemoryPressure","status":"True","timeoutSeconds":600}]}}`
		oldSpec  = `{"unhealthyConditions":[{"type":"Ready","status":"Unknown","timeout":"5m0s"},{"type":"DiskPressure","status":"True","timeout":"300s"}]}`
		nodeSpec = `{"minHealthy":"51%","unhealthyConditions":[{"type":"PIDPressure","status":"True","duration":"1m30s"}]}`
	)
	repair := func(by, condition string, after time.Duration) doctor.Repair {
		return doctor.Repair{By: by, Condition: condition, After: after}
	}
	many := strings.TrimSuffix(strings.Repeat(`{"type":"X","status":"True"},`, 1001), ",")
	for name, c := range map[string]struct {
		groups  string
		answers map[string]string // by path and query; others are not found, an empty answer is forbidden
		want    []doctor.Repair
		unknown string // in the cause; empty: known
	}{
		"no health checks":           {"", nil, []doctor.Repair{}, ""},
		"Cluster API":                {clusterAPI, map[string]string{clusterPath: list("", newSpec)}, []doctor.Repair{repair("MachineHealthCheck n/c0", "MemoryPressure", 10*time.Minute)}, ""},
		"Cluster API before v1beta2": {oldClusterAPI, map[string]string{oldPath: list("", oldSpec)}, []doctor.Repair{repair("MachineHealthCheck n/c0", "DiskPressure", 5*time.Minute)}, ""},
		"OpenShift":                  {openShift, map[string]string{shiftPath: list("", oldSpec)}, []doctor.Repair{repair("MachineHealthCheck n/c0", "DiskPressure", 5*time.Minute)}, ""},
		"NodeHealthCheck": {medik8s, map[string]string{medikPath: `{"items":[{"metadata":{"name":"c"},"spec":` + nodeSpec + `}]}`},
			[]doctor.Repair{repair("NodeHealthCheck c", "PIDPressure", 90*time.Second)}, ""},
		"a group without the kind": {clusterAPI + medik8s, map[string]string{medikPath: list("")}, []doctor.Repair{}, ""},
		"pages": {clusterAPI, map[string]string{clusterPath: list("p 2", newSpec), clusterPath + "?p 2": list("", oldSpec, newSpec)},
			[]doctor.Repair{repair("MachineHealthCheck n/c0", "MemoryPressure", 10*time.Minute), repair("MachineHealthCheck n/c0", "DiskPressure", 5*time.Minute),
				repair("MachineHealthCheck n/c1", "MemoryPressure", 10*time.Minute)}, ""},
		"one kind is forbidden": {clusterAPI + openShift, map[string]string{clusterPath: "", shiftPath: list("", oldSpec)},
			[]doctor.Repair{repair("MachineHealthCheck n/c0", "DiskPressure", 5*time.Minute)}, "list machinehealthchecks.cluster.x-k8s.io: "},
		"a later version": {`,{"name":"cluster.x-k8s.io","versions":[{"version":"v1"}]}`, nil, []doctor.Repair{}, "other versions (v1) than v1beta2, v1beta1"},
		"no duration":     {openShift, map[string]string{shiftPath: list("", `{"unhealthyConditions":[{"type":"X","status":"True","timeout":"soon"}]}`)}, []doctor.Repair{}, "MachineHealthCheck n/c0, condition X"},
		"no JSON":         {clusterAPI, map[string]string{clusterPath: "<html>"}, []doctor.Repair{}, "decode " + clusterPath},
		"no groups":       {"<html>", nil, nil, "decode /apis"},
		"too many":        {openShift, map[string]string{shiftPath: list("", `{"unhealthyConditions":[`+many+`]}`)}, nil, "more than 1000"},
	} {
		t.Run(name, func(t *testing.T) {
			got := clusterprobe.Cluster(t.Context(), clusterprobe.Options{Client: clientOf(t, apiServer(t, c.groups, c.answers)), Namespace: "n"}).Repairs
			if got.Known != (c.unknown == "") || !strings.Contains(got.Cause, c.unknown) {
				t.Errorf("known %v, %q, want %q", got.Known, got.Cause, c.unknown)
			}
			if name == "too many" {
				if len(got.Value) != 1000 {
					t.Errorf("%d conditions are stored", len(got.Value))
				}
				return
			}
			if diff := cmp.Diff(c.want, got.Value); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func clientOf(t *testing.T, url string) api.Interface {
	t.Helper()
	client, err := api.New(&rest.Config{Host: url, QPS: -1}, http.DefaultClient)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// apiServer returns the address of a server with these groups and answers.
func apiServer(t *testing.T, groups string, answers map[string]string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Path
		if next := r.URL.Query().Get("continue"); next != "" {
			path += "?" + next
		}
		answer, there := answers[path]
		switch {
		case path == "/apis":
			fmt.Fprintf(w, groupsOf, groups)
		case !there:
			http.NotFound(w, r)
		case answer == "":
			http.Error(w, "no", http.StatusForbidden)
		default:
			if r.URL.Query().Get("limit") != "20" {
				t.Errorf("%s is not bounded", r.URL)
			}
			fmt.Fprint(w, answer)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}
