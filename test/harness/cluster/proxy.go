package cluster

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
)

// Link forwards bytes to a server, including client certificates. Faults: Refuse, Drop, Stall
// and Delay, see gate; Pass ends them.
type Link struct{ *gate }

func newLink(network, address, server string) (*Link, error) {
	g, err := openGate(network, address, func(l net.Listener) {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go forward(conn, network, server)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("listen in front of %s: %w", server, err)
	}
	return &Link{g}, nil
}

func forward(client net.Conn, network, server string) {
	defer client.Close()
	conn, err := net.Dial(network, server)
	if err != nil {
		return // the client receives the end of its connection
	}
	defer conn.Close()
	done := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{client, conn}, {conn, client}} {
		go func() {
			_, _ = io.Copy(way[0], way[1])
			done <- struct{}{}
		}()
	}
	<-done // one direction is enough: no protocol here half-closes
}

// Config returns a client configuration that connects through the link.
func (l *Link) Config(config *rest.Config) *rest.Config { return through(config, l.Address()) }

func through(config *rest.Config, address string) *rest.Config {
	config = rest.CopyConfig(config)
	config.Host = "https://" + address
	return config
}

// Front is an HTTP proxy of the API server that answers selected requests itself. It terminates
// TLS, so clients need bearer tokens. Its connection faults are those of a Link.
type Front struct {
	*gate
	proxy   *httputil.ReverseProxy
	freezer freezer

	mu      sync.Mutex
	faults  []fault
	tally   map[int]int
	serving []*http.Server
}

type fault struct {
	code    int
	headers http.Header
	matches func(*http.Request) bool
}

func (c *Cluster) newFront(address string) (*Front, error) {
	server, err := c.authority.server()
	if err != nil {
		return nil, err
	}
	cert, err := server.certificate()
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(c.url)
	if err != nil {
		return nil, err
	}
	upstream := c.trusting().Transport.(*http.Transport)
	upstream.DisableKeepAlives, upstream.ForceAttemptHTTP2 = false, true
	f := &Front{tally: map[int]int{}}
	f.proxy = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     upstream,
		FlushInterval: -1,                         // forward watch events at once
		ErrorLog:      log.New(io.Discard, "", 0), // tests expect an unreachable server
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	if f.gate, err = openGate("tcp", address, func(l net.Listener) {
		s := &http.Server{Handler: f, TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}}, ErrorLog: log.New(io.Discard, "", 0)}
		f.mu.Lock()
		f.serving = append(f.serving, s)
		f.mu.Unlock()
		_ = s.ServeTLS(l, "", "") // until the gate refuses
	}); err != nil {
		return nil, err
	}
	return f, nil
}

// Config returns a client configuration that connects through the front.
func (f *Front) Config(config *rest.Config) *rest.Config { return through(config, f.Address()) }

// Answer makes the front answer matching requests (all, if matches is nil) with a status code
// and headers, "Name: value", until Forward. The latest matching rule applies.
func (f *Front) Answer(code int, matches func(*http.Request) bool, headers ...string) {
	rule := fault{code: code, headers: http.Header{}, matches: matches}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ":")
		rule.headers.Add(name, strings.TrimSpace(value))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = append(f.faults, rule)
}

// Forward removes every rule: all requests are forwarded again.
func (f *Front) Forward() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = nil
}

// Answered returns the number of requests that the front answered with a status code.
func (f *Front) Answered(code int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tally[code]
}

func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if rule := f.fault(r); rule != nil {
		for name, values := range rule.headers {
			w.Header()[name] = values
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(rule.code)
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":%q,"message":"answered by a test","code":%d}`,
			reasons[rule.code], rule.code)
		return
	}
	f.proxy.ServeHTTP(&frozenWriter{w, r, &f.freezer}, r)
}

// reasons maps these status codes to the reasons of the API server.
var reasons = map[int]string{
	http.StatusForbidden: "Forbidden", http.StatusNotFound: "NotFound", http.StatusConflict: "Conflict", http.StatusGone: "Expired",
	http.StatusTooManyRequests: "TooManyRequests", http.StatusInternalServerError: "InternalError", http.StatusServiceUnavailable: "ServiceUnavailable",
}

func (f *Front) fault(r *http.Request) *fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := len(f.faults) - 1; i >= 0; i-- {
		if rule := &f.faults[i]; rule.matches == nil || rule.matches(r) {
			f.tally[rule.code]++
			return rule
		}
	}
	return nil
}

func (f *Front) close() error {
	f.Thaw()
	errs := []error{f.gate.close()}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.serving {
		if err := s.Close(); !errors.Is(err, net.ErrClosed) { // the gate may have closed its listener before
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// startProxies starts both proxies. While a gate refuses, any client could get a port of the kernel's range.
func (c *Cluster) startProxies(server string) error {
	ports, err := freePorts(2)
	if err != nil {
		return err
	}
	if c.Link, err = newLink("tcp", "127.0.0.1:"+ports[0], server); err != nil {
		return err
	}
	c.Front, err = c.newFront("127.0.0.1:" + ports[1])
	return err
}
