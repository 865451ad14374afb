package cluster

import (
	"testing"
	"time"
)

func TestPodsOfAKubelet(t *testing.T) {
	begin := time.Now()
	c := Make(t, Options{Components: Everything})
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
