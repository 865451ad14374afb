package client

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"

	"plimsoll.dev/plimsoll/internal/kube/api"
)

// Clients are a controller's three clients of the API server. Each has its own connection, so that
// none delays another. They do not limit their requests: that is the duty of the callers.
type Clients struct {
	Watching api.Interface // for lists and watches: without a timeout
	Writing  api.Interface // without a timeout: each request has its own
	Electing api.Interface // with the timeout of the options
	Server   string        // for messages
	Context  string        // for messages: the current context of the kubeconfig; empty in a pod
}

// Name returns the name of the cluster for messages: its context and server.
func (c *Clients) Name() string {
	if c.Context == "" {
		return "the server " + c.Server
	}
	return fmt.Sprintf("the context %s (%s)", c.Context, c.Server)
}

// ErrNoServer means that no address of an API server is configured.
var ErrNoServer = errors.New("no API server is known: give --kubeconfig, or run in a pod with a service account")

// Dial returns clients for a whole cluster, and makes no request. It ignores the options NodeName
// and Log. Returns ErrNoServer if no address of the API server is configured.
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
	for _, client := range []*api.Interface{&c.Watching, &c.Writing, &c.Electing} {
		connection, err := rest.HTTPClientFor(config)
		if err != nil {
			return nil, fmt.Errorf("prepare to speak to the API server at %s: %w", config.Host, err)
		}
		own := &http.Client{Transport: connection.Transport}
		if client == &c.Electing {
			own.Timeout = cmp.Or(o.Timeout, standardTimeout)
		}
		if *client, err = api.New(config, own); err != nil {
			return nil, fmt.Errorf("prepare to speak to the API server at %s: %w", config.Host, err)
		}
	}
	return c, nil
}

// ErrNoCluster is the error of [DialAsUser] if no address of an API server is configured.
var ErrNoCluster = errors.New("no API server is known: give --kubeconfig, set KUBECONFIG, write ~/.kube/config, or run in a pod with a service account")

// DialAsUser returns clients for the server that kubectl uses: of kubeconfig, else of KUBECONFIG,
// ~/.kube/config or the pod's service account. Returns ErrNoCluster if no address of an API server
// is configured.
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

// kubeconfigs returns the files that kubectl merges: all in KUBECONFIG or, outside of pods, the one
// in the home directory. An empty result means the pod's service account.
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
