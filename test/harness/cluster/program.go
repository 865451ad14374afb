package cluster

import (
	"context"
	"os/exec"
)

// Program is a binary of the test that runs as a component: in the components' cgroup, stopped
// with the cluster, and with its log among theirs.
type Program struct {
	Name    string // unique in the cluster
	Command func() *exec.Cmd
	Healthy func(context.Context) error // nil: healthy as soon as it runs
}

// Launch starts a program and waits until it is healthy. Returns an error if the program can
// not be started or does not become healthy.
func (c *Cluster) Launch(ctx context.Context, p Program) (*Component, error) {
	component := &Component{
		Name:    p.Name,
		Log:     c.path("logs", p.Name+".log"),
		system:  c.system,
		command: p.Command,
		healthy: p.Healthy,
	}
	if component.healthy == nil {
		component.healthy = func(context.Context) error { return nil }
	}
	c.launching.Lock()
	c.launched = append(c.launched, component)
	c.launching.Unlock()
	return component, component.start(ctx)
}
