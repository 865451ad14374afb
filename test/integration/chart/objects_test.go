package chart_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// strict rejects unknown and duplicate fields.
var strict = serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()

// foreign is the API group of the Prometheus operator; no scheme here contains its kinds.
const foreign = "monitoring.coreos.com/"

// objects returns the objects of a manifest by KIND/NAME, or by KIND/NAMESPACE/NAME outside of
// the release's namespace, decoded strictly.
func objects(t *testing.T, manifest string) map[string]runtime.Object {
	t.Helper()
	all := map[string]runtime.Object{}
	for document := range strings.SplitSeq("\n"+manifest, "\n---") {
		name, object, err := decoded(document)
		if err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if object == nil {
			continue
		}
		if all[name] != nil {
			t.Errorf("%s is there twice", name)
		}
		all[name] = object
	}
	return all
}

// decoded returns nil for a document of comments only.
func decoded(document string) (name string, object runtime.Object, err error) {
	var plain unstructured.Unstructured
	if err := yaml.UnmarshalStrict([]byte(document), &plain.Object); err != nil {
		return "", nil, err
	}
	if len(plain.Object) == 0 {
		return "", nil, nil
	}
	name = plain.GetKind() + "/" + plain.GetName()
	if place := plain.GetNamespace(); place != "" && place != namespace {
		name = plain.GetKind() + "/" + place + "/" + plain.GetName()
	}
	if strings.HasPrefix(plain.GetAPIVersion(), foreign) {
		return name, &plain, nil
	}
	object, _, err = strict.Decode([]byte(document), nil, nil)
	if err != nil {
		return "", nil, fmt.Errorf("decode %s: %w", name, err)
	}
	return name, object, nil
}

// made returns the objects that the chart generates for some values.
func (p *tool) made(t *testing.T, values ...string) map[string]runtime.Object {
	t.Helper()
	manifest, err := p.template(t, values...)
	if err != nil {
		t.Fatal(err)
	}
	return objects(t, manifest)
}

// find returns the only object of a name, which must have the type O.
func find[O runtime.Object](t *testing.T, all map[string]runtime.Object, name string) O {
	t.Helper()
	found, ok := all[name].(O)
	if !ok {
		t.Fatalf("%s: found %T, want %T", name, all[name], found)
	}
	return found
}
