package main

import (
	"context"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/controller/nodelifecycle"
	"k8s.io/kubernetes/pkg/controller/tainteviction"
)

// The defaults of kube-controller-manager 1.37 (its reference of flags), equal to those of
// 1.36.
const (
	monitorPeriod      = 5 * time.Second
	startupGrace       = time.Minute
	monitorGrace       = 50 * time.Second
	evictionRate       = 0.1
	secondaryRate      = 0.01
	largeCluster       = 50
	unhealthyThreshold = 0.55
)

// controllers creates both controllers, each with a client of its own budget, and returns a
// function that starts them once the stores are synced.
func controllers(ctx context.Context, c *rest.Config, f informers.SharedInformerFactory) (func(), error) {
	lifecycleClient, err := kubernetes.NewForConfig(rest.AddUserAgent(c, "node-controller"))
	if err != nil {
		return nil, err
	}
	evictionClient, err := kubernetes.NewForConfig(rest.AddUserAgent(c, "node-controller"))
	if err != nil {
		return nil, err
	}
	nodes, pods := f.Core().V1().Nodes(), f.Core().V1().Pods()
	lifecycle, err := nodelifecycle.NewNodeLifecycleController(ctx,
		f.Coordination().V1().Leases(), pods, nodes, f.Apps().V1().DaemonSets(), lifecycleClient,
		monitorPeriod, startupGrace, monitorGrace, evictionRate, secondaryRate, largeCluster, unhealthyThreshold)
	if err != nil {
		return nil, err
	}
	eviction, err := tainteviction.New(ctx, evictionClient, pods, nodes, "taint-eviction-controller")
	if err != nil {
		return nil, err
	}
	return func() {
		go lifecycle.Run(ctx)
		go eviction.Run(ctx)
	}, nil
}
