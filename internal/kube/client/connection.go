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
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"plimsoll.dev/plimsoll/internal/kube/agentpods"
)

// Options say to which server to speak, and as whom.
type Options struct {
	// Kubeconfig is a file that says where the server is. If it is empty, the
	// environment that a cluster gives to its pods does; without that there is no
	// server.
	Kubeconfig string
	// Kubeconfigs are several files in place of Kubeconfig, merged as kubectl merges those
	// of KUBECONFIG: the first definition of a name counts, and missing files are skipped.
	Kubeconfigs []string
	// NodeName is the name of the own Node object; if it is empty, see [NodeName].
	NodeName string
	// Timeout of each request, watches excepted; 0 is 10 s.
	Timeout time.Duration
	// UserAgent is how the server's logs name the client; empty is plimsoll-agent.
	UserAgent string
	// Choices are applied to every pod; nil ones choose nothing.
	Choices *agentpods.Choices
	// Log is told once when the server stops to answer and when it is back, and
	// which objects can not be used; nil is slog.Default().
	Log *slog.Logger
}

// A Connection is how one node speaks to its API server, if it has one. Its
// clients share one HTTP/2 connection, which the watches keep warm: an eviction
// pays for no handshake.
type Connection struct {
	node    string
	log     *slog.Logger
	choices *agentpods.Choices
	// nil without a server
	watching, client, urgent kubernetes.Interface
}

// What the clients may ask per second, and at once. The urgent one is not
// limited: the agent evicts one pod at a time.
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

// Connect prepares to speak to the API server, and makes no request. Without a
// server to speak to the connection is not [Connection.Configured], which is no
// error; a kubeconfig that can not be used is one.
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
	if err := c.dial(config, cmp.Or(o.Timeout, standardTimeout)); err != nil {
		return nil, fmt.Errorf("prepare to speak to the API server at %s: %w", config.Host, err)
	}
	return c, nil
}

// configuration is where the server is, and the current context of the kubeconfig;
// nil if nothing says where the server is.
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
	// An empty kubeconfig must not lead to a server on localhost, as it does for
	// kubectl, nor to whatever the environment of some shell names.
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

// exists reports whether a file is there, readable or not.
func exists(file string) bool {
	_, err := os.Stat(file)
	return !errors.Is(err, fs.ErrNotExist)
}

// prepare sets what all clients have in common.
func prepare(config *rest.Config) {
	noticeDeadConnections()
	config.ContentType, config.AcceptContentTypes = protobuf, protobufOrJSON
	config.Timeout = 0 // it would end watches: each client has its own
	config.QPS = unlimited
	config.Dial = (&net.Dialer{Timeout: dialTimeout, KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3,
	}}).DialContext
}

func (c *Connection) dial(config *rest.Config, timeout time.Duration) error {
	prepare(config)
	shared, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	for _, one := range []struct {
		client *kubernetes.Interface
		http   http.Client
		qps    float32
	}{
		{&c.watching, http.Client{Transport: attempts{shared.Transport}}, queriesPerSecond},
		{&c.client, http.Client{Transport: shared.Transport, Timeout: timeout}, queriesPerSecond},
		{&c.urgent, http.Client{Transport: shared.Transport, Timeout: timeout}, unlimited},
	} {
		own := rest.CopyConfig(config)
		own.QPS, own.Burst = one.qps, burst
		*one.client, err = kubernetes.NewForConfigAndClient(own, &one.http)
		if err != nil {
			return err
		}
	}
	return nil
}

// noticeDeadConnections makes client-go ask for a sign of life on an HTTP/2
// connection after 5 s of silence, and give it up 5 s later; its own values are
// 30 and 15 s, which is longer than an eviction can wait. It offers no other way
// than the environment. What an operator has set there stays.
func noticeDeadConnections() {
	for _, name := range []string{"HTTP2_READ_IDLE_TIMEOUT_SECONDS", "HTTP2_PING_TIMEOUT_SECONDS"} {
		if _, set := os.LookupEnv(name); !set {
			_ = os.Setenv(name, "5") // fails for names that can be none only
		}
	}
}

// Configured reports whether there is a server to speak to. Whether it answers
// is another matter: see [Pods.Err].
func (c *Connection) Configured() bool { return c.client != nil }

// Client is for what may wait its turn: it makes at most 10 requests a second,
// each within the timeout of the options. It is not for watches, which the
// timeout would end. Nil without a server.
func (c *Connection) Client() kubernetes.Interface { return c.client }

// Urgent is for evictions: no limit of this client and no other request of it
// makes them wait. Nil without a server.
func (c *Connection) Urgent() kubernetes.Interface { return c.urgent }

// NodeName is the name of the own Node object.
func (c *Connection) NodeName() string { return c.node }

// nodeForm is that of a DNS subdomain, which names of Nodes are.
var nodeForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// maxName is the length of the longest name of an object.
const maxName = 253

// NodeName is the name of the own Node object: the given one (a flag's), or that
// in the environment variable NODE_NAME, or the machine's host name; in lower
// case and without spaces around, as a kubelet registers it.
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
