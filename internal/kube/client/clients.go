package client

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Clients are how a controller speaks to the API server: in three ways, each on
// a connection of its own, so that none holds up another. None limits its
// requests, which is for who makes them.
type Clients struct {
	Watching kubernetes.Interface // for lists and watches: without a timeout
	Writing  kubernetes.Interface // without a timeout: each request brings its own
	Electing kubernetes.Interface // with the timeout of the options
	Server   string               // for people
	Context  string               // likewise: the current one of the kubeconfig; empty in a pod
}

// ErrNoServer: nothing says where the API server is.
var ErrNoServer = errors.New("no API server is known: give --kubeconfig, or run in a pod with a service account")

// Dial prepares to speak to the API server for a whole cluster, and makes no
// request. The options' NodeName and Log are of no account.
func Dial(o Options) (*Clients, error) {
	config, current, err := configuration(&o)
	if err != nil {
		return nil, err
	}
	if config == nil {
		return nil, ErrNoServer
	}
	config.UserAgent = cmp.Or(o.UserAgent, "plimsoll-controller")
	prepare(config)
	c := &Clients{Server: config.Host, Context: current}
	for _, client := range []*kubernetes.Interface{&c.Watching, &c.Writing, &c.Electing} {
		connection, err := rest.HTTPClientFor(config)
		if err != nil {
			return nil, fmt.Errorf("prepare to speak to the API server at %s: %w", config.Host, err)
		}
		own := &http.Client{Transport: connection.Transport}
		if client == &c.Electing {
			own.Timeout = cmp.Or(o.Timeout, standardTimeout)
		}
		if *client, err = kubernetes.NewForConfigAndClient(config, own); err != nil {
			return nil, fmt.Errorf("prepare to speak to the API server at %s: %w", config.Host, err)
		}
	}
	return c, nil
}
