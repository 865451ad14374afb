package user

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	_ "k8s.io/client-go/plugin/pkg/client/auth/oidc" // kubectl has it too; other providers are programs
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"plimsoll.dev/plimsoll/internal/kube/api"
)

// Connection is a connection to the cluster of a user.
type Connection struct {
	Client  api.Interface
	Server  string
	Context string // empty in a pod
	clock   *serverClock
	config  *rest.Config
}

// ErrNoCluster is the error of [Flags.Dial] if no address of an API server is configured.
var ErrNoCluster = errors.New("no API server is known: give --kubeconfig or --server, set KUBECONFIG, write ~/.kube/config, or run in a pod with a service account")

// unlimited is no rate limit: a command makes few requests.
const unlimited = -1

// Dial returns a connection, and makes no request. Returns ErrNoCluster if no address of an API server
// is configured, and an error if the flags or the kubeconfig cannot be used.
func (f *Flags) Dial(userAgent string) (*Connection, error) {
	config, err := f.kubectl.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("use the kubeconfig: %w", err)
	}
	raw, err := f.kubectl.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, fmt.Errorf("use the kubeconfig: %w", err)
	}
	// kubectl assumes a server on localhost.
	if len(raw.Clusters) == 0 && *f.kubectl.APIServer == "" && config.Host == clientcmd.ClusterDefaults.Server {
		return nil, ErrNoCluster
	}
	config.UserAgent, config.QPS = userAgent, unlimited
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	shared, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("prepare to connect to the API server at %s: %w", config.Host, err)
	}
	clock := &serverClock{next: shared.Transport}
	if clock.next == nil {
		clock.next = http.DefaultTransport
	}
	client, err := api.New(config, &http.Client{Transport: clock, Timeout: shared.Timeout})
	if err != nil {
		return nil, fmt.Errorf("prepare to connect to the API server at %s: %w", config.Host, err)
	}
	c := &Connection{Client: client, Server: config.Host, Context: cmp.Or(*f.kubectl.Context, raw.CurrentContext), clock: clock, config: config}
	return c, nil
}

// Name returns the name of the cluster for messages.
func (c *Connection) Name() string {
	if c.Context == "" {
		return "the server " + c.Server
	}
	return fmt.Sprintf("the context %s (%s)", c.Context, c.Server)
}

// Now returns the time by the clock of the API server, to a second. Before the first response it is the
// time of this machine.
func (c *Connection) Now() time.Time { return c.clock.now(time.Now()) }

// serverClock is a transport that notes the time of the server. The clock of a user's machine may be
// wrong, and would then show every agent as silent, or none.
type serverClock struct {
	next http.RoundTripper

	mu    sync.Mutex
	ahead time.Duration // of the server before this machine
}

// RoundTrip implements http.RoundTripper.
func (c *serverClock) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := c.next.RoundTrip(r)
	if err != nil {
		return answer, err
	}
	if date, fault := http.ParseTime(answer.Header.Get("Date")); fault == nil {
		c.mu.Lock()
		c.ahead = time.Until(date)
		c.mu.Unlock()
	}
	return answer, nil
}

func (c *serverClock) now(local time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return local.Add(c.ahead)
}
