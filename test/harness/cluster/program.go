package cluster

import (
	"context"
	"os/exec"
)

// A Program is a binary of the test's own that runs as a component: in the
// components' cgroup, ended with the cluster, its log among theirs.
type Program struct {
	Name    string // unique in the cluster
	Command func() *exec.Cmd
	Healthy func(context.Context) error // nil: it is as soon as it runs
}

// Launch starts a program and waits until it is healthy.
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
