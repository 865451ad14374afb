package client

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

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

// ErrNoCluster is the error of [DialAsUser] if nothing says where the API server is.
var ErrNoCluster = errors.New("no API server is known: give --kubeconfig, set KUBECONFIG, write ~/.kube/config, or run in a pod with a service account")

// DialAsUser prepares to speak to the API server as kubectl does: by the kubeconfig, else
// by KUBECONFIG, ~/.kube/config or the pod's service account. Returns ErrNoCluster if
// nothing says where the server is.
func DialAsUser(kubeconfig, userAgent string) (*Clients, error) {
	o := Options{Kubeconfig: kubeconfig, UserAgent: userAgent}
	if kubeconfig == "" {
		o.Kubeconfigs = kubeconfigs()
	}
	clients, err := Dial(o)
	if errors.Is(err, ErrNoServer) {
		return nil, ErrNoCluster
	}
	return clients, err
}

// kubeconfigs are the files that kubectl would merge: all that KUBECONFIG names, or
// that of the home directory unless this is a pod. None is the pod's service account.
func kubeconfigs() []string {
	if list := os.Getenv("KUBECONFIG"); list != "" {
		return filepath.SplitList(list)
	}
	if home, err := os.UserHomeDir(); err == nil && os.Getenv("KUBERNETES_SERVICE_HOST") == "" {
		file := filepath.Join(home, ".kube", "config")
		if _, err := os.Stat(file); err == nil {
			return []string{file}
		}
	}
	return nil
}
