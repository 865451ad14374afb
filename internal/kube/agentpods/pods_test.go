package agentpods_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/kube/agentpods"
)

func convert(t *testing.T, manifest string) signals.Pod {
	t.Helper()
	pod, faults := agentpods.ParseManifest([]byte("apiVersion: v1\nkind: Pod\nmetadata: {name: p, uid: u1}\n" + manifest))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	return pod
}

func TestParseManifest_Protection(t *testing.T) {
	for _, tc := range []struct {
		manifest string
		want     signals.Protection
	}{
		{"spec: {containers: [{name: a}]}", signals.Unprotected},
		{"spec: {priority: 1999999999, containers: [{name: a}]}", signals.Unprotected},
		{"spec: {priority: 2000000000, containers: [{name: a}]}", signals.Critical},
		{"spec: {priorityClassName: system-node-critical, containers: [{name: a}]}", signals.Unprotected},
	} {
		pod := convert(t, tc.manifest)
		if pod.Protection != tc.want {
			t.Errorf("%s: %q, want %q", tc.manifest, pod.Protection, tc.want)
		}
	}
	for annotation, want := range map[string]signals.Protection{
		"kubernetes.io/config.source: file": signals.Static,
		"kubernetes.io/config.source: api":  signals.Unprotected,
		"kubernetes.io/config.mirror: abc":  signals.Mirror,
	} {
		pod, _ := agentpods.ParseManifest([]byte("apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  uid: u\n  annotations: {" + annotation + "}\n"))
		if pod.Protection != want {
			t.Errorf("%s: %q, want %q", annotation, pod.Protection, want)
		}
	}
}

func TestParseManifest_VolumesAndLimits(t *testing.T) {
	pod := convert(t, `
spec:
  containers:
  - {name: a, resources: {limits: {ephemeral-storage: 1Gi}}}
  - {name: b}
  volumes:
  - {name: disk, emptyDir: {sizeLimit: 500Mi}}
  - {name: tmpfs, emptyDir: {medium: Memory, sizeLimit: 1Gi}}
  - {name: cfg, configMap: {name: c}}
  - {name: repo, gitRepo: {repository: r}}
  - {name: host, hostPath: {path: /x}}
  - {name: secret, secret: {secretName: s}}
  - {name: claim, persistentVolumeClaim: {claimName: c}}
`)
	if pod.StorageLimit == nil || pod.StorageLimit.String() != "1Gi" {
		t.Errorf("storage limit %v, want 1Gi: containers without a limit add nothing", pod.StorageLimit)
	}
	var local []string
	for _, v := range pod.Volumes {
		if v.Local {
			local = append(local, v.Name+"="+v.Directory)
		} else if v.Directory != "" {
			t.Errorf("%s is not local, but has the directory %s", v.Name, v.Directory)
		}
	}
	if got := strings.Join(local, " "); got != "disk=kubernetes.io~empty-dir/disk cfg=kubernetes.io~configmap/cfg repo=kubernetes.io~git-repo/repo host=" {
		t.Errorf("local volumes: %s", got)
	}
	if !slices.Equal(pod.HostPaths, []string{"/x"}) {
		t.Errorf("hostPaths %q", pod.HostPaths)
	}
	if pod.Volumes[1].SizeLimit.String() != "1Gi" {
		t.Error("the size limit of an emptyDir in memory is missing")
	}
	if plain := convert(t, "spec: {containers: [{name: a}]}"); plain.StorageLimit != nil || len(plain.Volumes) > 0 {
		t.Error("a pod without limits and volumes has some")
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestDirectory_SkipsBrokenManifests(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: a, uid: u-a}\nspec: {containers: [{name: c}]}\n")
	write(t, dir, "b.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: b}\n")
	write(t, dir, "c.json", `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "c", "uid": "u-c"}}`)
	write(t, dir, "d.yml", "apiVersion: v1\nkind: Pod\nmetadata: {name: d, uid: u-a}\n")
	write(t, dir, "e.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: e, uid: ../../x}\n")
	write(t, dir, "f.yaml", "apiVersion: v1\nkind: Pod\nspec: {containers: [{nam: c}]}\n")
	write(t, dir, "g.yaml", "kind: [\n")
	write(t, dir, "README.md", "not a manifest")
	d := agentpods.NewDirectory(dir, nil)
	changed, err := d.Refresh()
	if !changed || err == nil {
		t.Fatalf("changed %v, err %v", changed, err)
	}
	if got := d.Pods(); len(got) != 2 || got[0].Key() != "default/a" || got[1].Key() != "default/c" {
		t.Errorf("pods: %+v", got)
	}
	for _, name := range []string{"b.yaml: metadata.uid", "d.yml: metadata.uid", "e.yaml: metadata.uid", "f.yaml", "g.yaml"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not named in:\n%v", name, err)
		}
	}
}

func TestDirectory_RefreshesAfterChange(t *testing.T) {
	dir := t.TempDir()
	d := agentpods.NewDirectory(dir, nil)
	if changed, err := d.Refresh(); !changed || err != nil || len(d.Pods()) != 0 {
		t.Fatalf("empty directory: %v %v", changed, err)
	}
	write(t, dir, "a.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: a, uid: u-a}\n")
	if changed, err := d.Refresh(); !changed || err != nil || len(d.Pods()) != 1 {
		t.Fatalf("a new manifest: %v %v", changed, err)
	}
	if changed, _ := d.Refresh(); changed {
		t.Error("read again without a change")
	}
	path := filepath.Join(dir, "a.yaml")
	if err := os.Chtimes(path, time.Time{}, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if changed, _ := d.Refresh(); !changed {
		t.Error("a touched manifest was not read again")
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Refresh(); err == nil || len(d.Pods()) != 1 {
		t.Errorf("removed directory: err %v, %d pods, want an error and the known pod", err, len(d.Pods()))
	}
}

func FuzzParseManifest(f *testing.F) {
	f.Add([]byte("apiVersion: v1\nkind: Pod\nmetadata: {name: a, uid: u}\nspec: {containers: [{name: c, resources: {requests: {memory: 1Gi}}}]}"))
	f.Add([]byte(`{"spec":{"overhead":{"memory":"1e30"}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		pod, faults := agentpods.ParseManifest(data)
		if len(faults) == 0 && (pod.UID == "" || strings.ContainsAny(pod.UID, "/.")) {
			t.Errorf("accepted UID %q", pod.UID)
		}
	})
}
