package client

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"plimsoll.dev/plimsoll/internal/kube/agentpods"
	"plimsoll.dev/plimsoll/internal/kube/api"
)

// Options configure the server and the identity of a client.
type Options struct {
	// Kubeconfig is a file with the address of the server. If it is empty, the environment of pods
	// is used. Without that there is no server.
	Kubeconfig string
	// Kubeconfigs are several files in place of Kubeconfig, merged as kubectl merges those of
	// KUBECONFIG: the first definition of a name counts, and missing files are skipped.
	Kubeconfigs []string
	// NodeName is the name of the own Node object; if empty, see [NodeName].
	NodeName string
	// Timeout of each request except watches; 0 is 10 s.
	Timeout time.Duration
	// UserAgent is the client's name in the logs of the server; empty is plimsoll-agent.
	UserAgent string
	// Choices are applied to every pod; nil chooses nothing.
	Choices *agentpods.Choices
	// Failed, if set, is called for each attempt of a request that fails, from many goroutines at a time. It must not block.
	Failed func(*http.Request)
	// Log records once when the server stops responding and when it recovers, and which objects are
	// unusable; nil is slog.Default().
	Log *slog.Logger
}

// Connection is the connection of one node to its API server, if there is one. Its clients share
// one HTTP/2 connection. The watches keep it open, so an eviction needs no handshake.
type Connection struct {
	node    string
	log     *slog.Logger
	choices *agentpods.Choices
	// All are nil without a server.
	watching, client, urgent api.Interface
}

// Rate limits of the clients, per second, and their burst. The urgent client has no limit: the
// agent evicts one pod at a time.
const (
	queriesPerSecond = 10
	burst            = 20
	unlimited        = -1
)

const (
	protobuf        = runtime.ContentTypeProtobuf
	protobufOrJSON  = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	dialTimeout     = 5 * time.Second
	standardTimeout = 10 * time.Second
)

// Connect returns a connection, and makes no request. Without a configured server the connection is
// not [Connection.Configured], which is no error. Returns an error if the kubeconfig is unusable or
// the node's name is invalid.
func Connect(o Options) (*Connection, error) {
	node, err := NodeName(o.NodeName)
	if err != nil {
		return nil, err
	}
	c := &Connection{node: node, log: cmp.Or(o.Log, slog.Default()), choices: o.Choices}
	config, _, err := configuration(&o)
	if err != nil {
		return nil, err
	}
	if config == nil {
		return c, nil
	}
	config.UserAgent = cmp.Or(o.UserAgent, "plimsoll-agent")
	if err := c.dial(config, cmp.Or(o.Timeout, standardTimeout), o.Failed); err != nil {
		return nil, fmt.Errorf("prepare to speak to the API server at %s: %w", config.Host, err)
	}
	return c, nil
}

// configuration returns the address and credentials of the server, and the current context of the
// kubeconfig. config is nil if no server is configured.
func configuration(o *Options) (config *rest.Config, current string, err error) {
	if o.Kubeconfig == "" && len(o.Kubeconfigs) == 0 {
		if os.Getenv("KUBERNETES_SERVICE_HOST") == "" || os.Getenv("KUBERNETES_SERVICE_PORT") == "" {
			return nil, "", nil
		}
		if config, err = rest.InClusterConfig(); err != nil {
			return nil, "", fmt.Errorf("use the pod's service account for the API server: %w; mount its token, or give --kubeconfig", err)
		}
		return config, "", nil
	}
	// An empty kubeconfig must not lead to a server on localhost, as it does in kubectl, nor to a
	// server from the environment of a shell.
	names := cmp.Or(o.Kubeconfig, strings.Join(o.Kubeconfigs, string(filepath.ListSeparator)))
	if o.Kubeconfig == "" && !slices.ContainsFunc(o.Kubeconfigs, exists) {
		return nil, "", fmt.Errorf("read the kubeconfig %s: %w", names, fs.ErrNotExist)
	}
	rules := clientcmd.ClientConfigLoadingRules{ExplicitPath: o.Kubeconfig, Precedence: o.Kubeconfigs}
	loaded, err := rules.Load()
	if err != nil {
		return nil, "", fmt.Errorf("read the kubeconfig %s: %w", names, err)
	}
	config, err = clientcmd.NewNonInteractiveClientConfig(*loaded, "", &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err != nil {
		return nil, "", fmt.Errorf("use the kubeconfig %s: %w", names, err)
	}
	return config, loaded.CurrentContext, nil
}

// exists reports whether a file exists, readable or not.
func exists(file string) bool {
	_, err := os.Stat(file)
	return !errors.Is(err, fs.ErrNotExist)
}

// prepare sets the configuration that all clients share.
func prepare(config *rest.Config) {
	noticeDeadConnections()
	config.ContentType, config.AcceptContentTypes = protobuf, protobufOrJSON
	config.Timeout = 0 // it would end watches: each client has its own
	config.QPS = unlimited
	config.Dial = (&net.Dialer{Timeout: dialTimeout, KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3,
	}}).DialContext
}

func (c *Connection) dial(config *rest.Config, timeout time.Duration, onFailure func(*http.Request)) error {
	prepare(config)
	shared, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	if onFailure != nil {
		shared.Transport = observed{shared.Transport, onFailure}
	}
	for _, one := range []struct {
		client *api.Interface
		http   http.Client
		qps    float32
	}{
		{&c.watching, http.Client{Transport: attempts{shared.Transport}}, queriesPerSecond},
		{&c.client, http.Client{Transport: shared.Transport, Timeout: timeout}, queriesPerSecond},
		{&c.urgent, http.Client{Transport: shared.Transport, Timeout: timeout}, unlimited},
	} {
		own := rest.CopyConfig(config)
		own.QPS, own.Burst = one.qps, burst
		*one.client, err = api.New(own, &one.http)
		if err != nil {
			return err
		}
	}
	return nil
}

// noticeDeadConnections makes client-go ping an HTTP/2 connection after 5 s of silence, and close
// it after 5 s without a response. The defaults of 30 s and 15 s are longer than an eviction can
// wait. Only the environment configures them. Values of an operator remain.
func noticeDeadConnections() {
	for _, name := range []string{"HTTP2_READ_IDLE_TIMEOUT_SECONDS", "HTTP2_PING_TIMEOUT_SECONDS"} {
		if _, set := os.LookupEnv(name); !set {
			_ = os.Setenv(name, "5") // fails only for invalid names
		}
	}
}

// Configured reports whether a server is configured. Its availability is reported by [Pods.Err].
func (c *Connection) Configured() bool { return c.client != nil }

// Client returns the client for requests that may be delayed: at most 10 per second, each within
// the timeout of the options. It is unsuitable for watches, which the timeout would end. Nil
// without a server.
func (c *Connection) Client() api.Interface { return c.client }

// Urgent returns the client for evictions. No rate limit and no other request of this program
// delays them. Nil without a server.
func (c *Connection) Urgent() api.Interface { return c.urgent }

// NodeName returns the name of the own Node object.
func (c *Connection) NodeName() string { return c.node }

// nodeForm matches DNS subdomains, the valid names of Nodes.
var nodeForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// maxName is the maximum length of an object's name.
const maxName = 253

// NodeName returns the name of the own Node object: given (a flag), or the environment variable
// NODE_NAME, or the host name. As in the kubelet it is in lower case and without spaces around it.
// Returns an error if the name is invalid.
func NodeName(given string) (string, error) {
	name, from := given, "the name that was given"
	if strings.TrimSpace(name) == "" {
		name, from = os.Getenv("NODE_NAME"), "the environment variable NODE_NAME"
	}
	if strings.TrimSpace(name) == "" {
		host, err := os.Hostname()
		if err != nil {
			return "", fmt.Errorf("find the node's name by the host's: %w; give --hostname-override", err)
		}
		name, from = host, "the host's name"
	}
	name = strings.ToLower(strings.TrimSpace(name))
	if len(name) > maxName || !nodeForm.MatchString(name) {
		return "", fmt.Errorf("find the node's name: %s is %.300q, which can be none: it needs lower case letters, digits, hyphens and dots; give --hostname-override", from, name)
	}
	return name, nil
}
