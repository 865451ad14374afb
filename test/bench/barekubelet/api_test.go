package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// call sends a request, and returns the code and the object of the answer.
func call(t *testing.T, server *httptest.Server, method, path, body string) (int, object) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var o object
	if err := json.NewDecoder(answer.Body).Decode(&o); err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return answer.StatusCode, o
}

func serve(t *testing.T) (*api, *httptest.Server) {
	t.Helper()
	a := newAPI()
	server := httptest.NewServer(a)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return a, server
}

func TestAPI_StoresWhatIsWritten(t *testing.T) {
	_, server := serve(t)
	const nodes, leases = "/api/v1/nodes", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
	if code, o := call(t, server, "GET", nodes+"/node", ""); code != 404 || o["kind"] != "Status" || o["reason"] != "NotFound" {
		t.Errorf("no node yet: %d, %v", code, o)
	}
	if code, o := call(t, server, "POST", nodes, `{"kind":"Node","metadata":{"name":"node"}}`); code != 201 || metadataOf(o)["uid"] == nil || metadataOf(o)["resourceVersion"] != "1" {
		t.Errorf("made a node: %d, %v", code, o)
	}
	if code, o := call(t, server, "POST", nodes, `{"metadata":{"name":"node"}}`); code != 409 || o["reason"] != "AlreadyExists" {
		t.Errorf("made it twice: %d, %v", code, o)
	}
	if code, o := call(t, server, "PATCH", nodes+"/node/status", `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`); code != 200 || o["kind"] != "Node" {
		t.Errorf("patched its status: %d, %v", code, o)
	}
	if _, o := call(t, server, "GET", nodes+"/node", ""); o["status"] == nil || metadataOf(o)["resourceVersion"] != "2" {
		t.Errorf("got %v, want the patched node", o)
	}
	if code, o := call(t, server, "PATCH", nodes+"/other", `{}`); code != 404 {
		t.Errorf("patched what does not exist: %d, %v", code, o)
	}
	if code, _ := call(t, server, "POST", leases, `{"metadata":{"name":"node"}}`); code != 201 {
		t.Errorf("made a lease: %d", code)
	}
	if code, o := call(t, server, "PUT", leases+"/node", `{"metadata":{"name":"node"},"spec":{"renewTime":"now"}}`); code != 200 || o["spec"] == nil {
		t.Errorf("renewed it: %d, %v", code, o)
	}
	if code, _ := call(t, server, "POST", "/api/v1/namespaces/default/events", `{"metadata":{"name":"x"}}`); code != 201 {
		t.Errorf("event: %d", code)
	}
	for path, want := range map[string]int{nodes: 1, leases: 1, "/api/v1/services": 0, "/api/v1/namespaces/default/events": 0} {
		code, o := call(t, server, "GET", path+"?limit=500", "")
		if items, isList := o["items"].([]any); code != 200 || !isList || len(items) != want {
			t.Errorf("list %s: %d, %v, want %d items", path, code, o, want)
		}
	}
	if code, _ := call(t, server, "DELETE", nodes+"/node", ""); code != 200 {
		t.Errorf("deleted: %d", code)
	}
	if code, _ := call(t, server, "GET", nodes+"/node", ""); code != 404 {
		t.Errorf("deleted, and then: %d", code)
	}
	for path, code := range map[string]int{"/healthz": 404, "/api/v1/nodes?watch=true&sendInitialEvents=true": 422, "/api/v1/nodes?watch=1&resourceVersion=x": 422} {
		if got, _ := call(t, server, "GET", path, ""); got != code {
			t.Errorf("%s: got %d, want %d", path, got, code)
		}
	}
	if code, _ := call(t, server, "POST", nodes, "{"); code != 400 {
		t.Errorf("a body that is no JSON: got %d", code)
	}
}

// TestAPI_WatchesFromAVersion watches pods, of which one exists before, and one is added later.
func TestAPI_WatchesFromAVersion(t *testing.T) {
	a, server := serve(t)
	pod := func(name string) object {
		return object{"kind": "Pod", "metadata": object{"name": name, "namespace": "default", "uid": name}}
	}
	a.add("pods", pod("first"))
	a.add("nodes", object{"kind": "Node", "metadata": object{"name": "node"}})
	for from, want := range map[string][]string{"": {"ADDED first", "ADDED later", "MODIFIED later"}, "1": {"ADDED later", "MODIFIED later"}} {
		request, err := http.NewRequestWithContext(t.Context(), "GET", server.URL+"/api/v1/pods?watch=true&resourceVersion="+from, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := server.Client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if a.objects["pods/default/later"] == nil {
			a.add("pods", pod("later"))
			call(t, server, "PATCH", "/api/v1/namespaces/default/pods/later/status", `{"status":{"phase":"Running"}}`)
		}
		lines := bufio.NewReader(answer.Body)
		for _, w := range want {
			line, err := lines.ReadString('\n')
			var c struct {
				Type   string
				Object struct{ Metadata struct{ Name string } }
			}
			if err == nil {
				err = json.Unmarshal([]byte(line), &c)
			}
			if got := c.Type + " " + c.Object.Metadata.Name; err != nil || got != w {
				t.Errorf("from %q: got %s, %v, want %s", from, got, err, w)
			}
		}
		_ = answer.Body.Close()
	}
}

func TestMerge_FollowsStrategicPatches(t *testing.T) {
	for _, c := range []struct{ name, old, patch, want string }{
		{"fields", `{"a":1,"b":{"c":2,"d":3}}`, `{"b":{"c":4,"d":null},"e":[1]}`, `{"a":1,"b":{"c":4},"e":[1]}`},
		{"conditions", `{"l":[{"type":"A","s":1,"t":0},{"type":"B","s":1}]}`, `{"$setElementOrder/l":[{"type":"A"}],"l":[{"type":"A","s":2},{"type":"C"}]}`,
			`{"l":[{"s":2,"t":0,"type":"A"},{"s":1,"type":"B"},{"type":"C"}]}`},
		{"containers", `{"l":[{"name":"main","ready":true,"state":{"running":{}}}]}`, `{"l":[{"name":"main","ready":false,"state":{"running":null,"terminated":{}}}]}`,
			`{"l":[{"name":"main","ready":false,"state":{"terminated":{}}}]}`},
		{"deleted element", `{"l":[{"ip":"1"},{"ip":"2"}]}`, `{"l":[{"$patch":"delete","ip":"1"}]}`, `{"l":[{"ip":"2"}]}`},
		{"replaced list", `{"l":[{"type":"A"}]}`, `{"l":[{"$patch":"replace"},{"type":"B"}]}`, `{"l":[{"type":"B"}]}`},
		{"list of texts", `{"l":["a"]}`, `{"l":["b"]}`, `{"l":["b"]}`},
		{"a null inside of what is new", `{}`, `{"a":{"b":null,"c":1}}`, `{"a":{"c":1}}`},
	} {
		var old, patch any
		if err := json.Unmarshal([]byte(c.old), &old); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(c.patch), &patch); err != nil {
			t.Fatal(err)
		}
		before, _ := json.Marshal(old) // it came from JSON
		got, err := json.Marshal(merge(old, patch))
		if err != nil || string(got) != c.want {
			t.Errorf("%s: got %s, %v\nwant %s", c.name, got, err, c.want)
		}
		if after, _ := json.Marshal(old); !bytes.Equal(before, after) {
			t.Errorf("%s: the old value became %s", c.name, after)
		}
	}
}

// await waits for a condition.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); _, _ = unix.Poll(nil, 1) {
		if time.Now().After(end) {
			t.Fatalf("waited a minute for %s", what)
		}
	}
}
