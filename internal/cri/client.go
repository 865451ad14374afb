package cri

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Options configure the endpoint and the timeout of a Client.
type Options struct {
	// Endpoint is unix:///path or the absolute path of a socket.
	Endpoint string
	// Timeout bounds every call except [Client.Events]; 0 is [DefaultTimeout].
	Timeout time.Duration
}

// DefaultTimeout is the kubelet's --runtime-request-timeout: on a busy disk the removal of a large
// image takes that long.
const DefaultTimeout = 2 * time.Minute

// Backoff of connections: short after a restart of the runtime, long while it is absent.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
	widening   = 1.6
)

// maxResponseBytes bounds the size of a response: twice the kubelet's bound, some ten thousand
// containers.
const maxResponseBytes = 32 << 20

// Client is a client of one runtime. It is safe for concurrent use.
type Client struct {
	endpoint string
	timeout  time.Duration
	conn     *grpc.ClientConn
	runtime  runtimeapi.RuntimeServiceClient
	images   runtimeapi.ImageServiceClient
}

// Open returns a client without connecting. It neither blocks nor fails without a runtime: later
// calls return [ErrUnavailable]. Returns an error if the endpoint is invalid.
func Open(o Options) (*Client, error) {
	endpoint, err := ParseEndpoint(o.Endpoint)
	if err != nil {
		return nil, err
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Timeout < 0 {
		return nil, fmt.Errorf("speak to the container runtime: a timeout of %v: give a positive one", o.Timeout)
	}
	socket := strings.TrimPrefix(endpoint, "unix://")
	// An own dialer, because gRPC's target is a URL and a path is not: % and ? have no special
	// meaning in it.
	conn, err := grpc.NewClient("passthrough:///runtime",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}),
		grpc.WithAuthority("localhost"),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: firstPause, Multiplier: widening, Jitter: 0.2, MaxDelay: lastPause},
			MinConnectTimeout: lastPause,
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxResponseBytes)))
	if err != nil {
		return nil, fmt.Errorf("prepare to speak to the container runtime at %s: %w", endpoint, err)
	}
	return &Client{endpoint, o.Timeout, conn, runtimeapi.NewRuntimeServiceClient(conn), runtimeapi.NewImageServiceClient(conn)}, nil
}

// Close closes the connection and cancels the calls in progress. Returns an error if the connection
// is closed already.
func (c *Client) Close() error {
	if err := c.conn.Close(); err != nil {
		return fmt.Errorf("close the connection to the container runtime at %s: %w", c.endpoint, err)
	}
	return nil
}

// Endpoint returns the runtime's endpoint as unix:///path.
func (c *Client) Endpoint() string { return c.endpoint }

// Version returns the name and versions of the runtime: the cheapest call.
func (c *Client) Version(ctx context.Context) (Runtime, error) {
	a, err := ask(ctx, c, "read the version", c.runtime.Version, &runtimeapi.VersionRequest{})
	if err != nil {
		return Runtime{}, err
	}
	return Runtime{Name: a.GetRuntimeName(), Version: a.GetRuntimeVersion(), API: a.GetRuntimeApiVersion()}, nil
}

// method is a method of the generated client.
type method[Q, A any] = func(context.Context, *Q, ...grpc.CallOption) (*A, error)

// ask makes a call within the timeout.
func ask[Q, A any](ctx context.Context, c *Client, call string, m method[Q, A], question *Q) (*A, error) {
	return askWithin(ctx, c, c.timeout, call, m, question)
}

func askWithin[Q, A any](ctx context.Context, c *Client, timeout time.Duration, call string, m method[Q, A], question *Q) (*A, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	answer, err := m(ctx, question)
	if err != nil {
		return nil, c.explain(call, err)
	}
	return answer, nil
}
