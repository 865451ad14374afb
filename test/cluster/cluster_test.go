package cluster

import (
	"context"
	"testing"
	"time"
)

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestPodsWithoutAKubelet(t *testing.T) {
	begin := time.Now()
	c := Make(t, Options{Components: APIServer | Containerd})
	t.Logf("started in %v", time.Since(begin))
	ctx := testContext(t)
	begin = time.Now()
	p, err := c.Node.AddPod(ctx, Hog("greedy", "fill 20MiB"))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("running after %v", time.Since(begin))
	if err := p.Do(ctx, "fill 10MiB"); err != nil {
		t.Fatal(err)
	}
}
