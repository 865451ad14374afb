package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// everythingButTheLifecycle disables the controllers that set node taints and evict pods, so
// that tests control both.
const everythingButTheLifecycle = "*,-node-lifecycle-controller,-taint-eviction-controller"

// component returns an unstarted component with its command.
func (c *Cluster) component(which Components, name string, healthy func(context.Context) error, wrap func(*exec.Cmd) *exec.Cmd, args ...string) (*Component, error) {
	path, err := program(name)
	if err != nil {
		return nil, err
	}
	args = append(args, c.options.Args[which]...)
	return &Component{
		Name:    name,
		Log:     c.path("logs", name+".log"),
		system:  c.system,
		healthy: healthy,
		command: func() *exec.Cmd {
			cmd := exec.Command(path, args...)
			if wrap != nil {
				cmd = wrap(cmd)
			}
			return cmd
		},
	}, nil
}

func (c *Cluster) startControlPlane(ctx context.Context) error {
	if joined, err := c.join(ctx); joined || err != nil {
		return err
	}
	for _, step := range []struct {
		which Components
		start func(context.Context) error
	}{
		{Etcd, c.startEtcd},
		{APIServer, c.startAPIServer},
		{Controllers | Scheduler, func(ctx context.Context) error { return together(ctx, c.startControllers, c.startScheduler) }},
	} {
		if c.options.Components.has(step.which) {
			if err := step.start(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Cluster) startEtcd(ctx context.Context) (err error) {
	ports, err := freePorts(2)
	if err != nil {
		return err
	}
	client, peer := "http://127.0.0.1:"+ports[0], "http://127.0.0.1:"+ports[1]
	c.Etcd, err = c.component(Etcd, "etcd", answers(http.DefaultClient, client+"/health"), nil,
		"--data-dir", c.path("etcd"),
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer,
		"--unsafe-no-fsync") // data loss in a power cut does not matter here
	if err != nil {
		return err
	}
	c.etcdURL = client
	return c.Etcd.start(ctx)
}

func (c *Cluster) startAPIServer(ctx context.Context) (err error) {
	ports, err := freePorts(1)
	if err != nil {
		return err
	}
	c.url = "https://127.0.0.1:" + ports[0]
	const issuer = "https://kubernetes.default.svc"
	args := []string{
		"--etcd-servers=" + c.etcdURL,
		"--bind-address=127.0.0.1", "--secure-port=" + ports[0],
		"--advertise-address=192.0.2.2", "--endpoint-reconciler-type=none", // loopback can not be advertised
		"--tls-cert-file=" + c.path("pki", "server.crt"), "--tls-private-key-file=" + c.path("pki", "server.key"),
		"--client-ca-file=" + c.path("pki", "ca.crt"),
		"--service-account-key-file=" + c.path("pki", "accounts.key"), "--service-account-signing-key-file=" + c.path("pki", "accounts.key"),
		"--service-account-issuer=" + issuer, "--api-audiences=" + issuer,
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--service-cluster-ip-range=10.0.0.0/24",
		"--kubelet-client-certificate=" + c.path("pki", "kubelet-client.crt"), "--kubelet-client-key=" + c.path("pki", "kubelet-client.key"),
		"--kubelet-certificate-authority=" + c.path("pki", "ca.crt"), "--kubelet-preferred-address-types=Hostname",
		"--allow-privileged=true",
	}
	if minor, err := c.minor(ctx); err != nil {
		return err
	} else if beta(minor) { // as docs/reference/compatibility.md requires for the admission policies
		args = append(args, "--feature-gates=MutatingAdmissionPolicy=true", "--runtime-config=admissionregistration.k8s.io/v1beta1=true")
	}
	if !c.options.Components.has(Controllers) { // without them no default account exists for the admission
		args = append(args, "--disable-admission-plugins=ServiceAccount")
	}
	client, err := kubernetes.NewForConfig(c.Admin())
	if err != nil {
		return err
	}
	ready := func(ctx context.Context) error {
		return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	}
	if c.APIServer, err = c.component(APIServer, "kube-apiserver", ready, nil, args...); err != nil {
		return err
	}
	if err := c.APIServer.start(ctx); err != nil {
		return err
	}
	return c.startProxies("127.0.0.1:" + ports[0])
}

// minor returns the second number of the API server's version. It is empty without [componentsVariable]: then
// the version is the newest.
func (c *Cluster) minor(ctx context.Context) (string, error) {
	if os.Getenv(componentsVariable) == "" {
		return "", nil
	}
	path, err := program("kube-apiserver")
	if err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, path, "--version").Output() // Kubernetes v1.34.4
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", path, err)
	}
	numbers := strings.SplitN(string(out), ".", 3)
	if len(numbers) != 3 {
		return "", fmt.Errorf("%s --version: %q has no version of three numbers", path, out)
	}
	return numbers[1], nil
}

// beta reports whether MutatingAdmissionPolicy is beta in Kubernetes 1.MINOR, and needs a feature gate.
func beta(minor string) bool { return minor == "34" || minor == "35" }

func (c *Cluster) startControllers(ctx context.Context) (err error) {
	if !c.options.Components.has(Controllers) {
		return nil
	}
	controllers := c.options.ControllerList
	if controllers == "" {
		controllers = everythingButTheLifecycle
	}
	c.Controllers, err = c.startClient(ctx, Controllers, "kube-controller-manager", "system:kube-controller-manager",
		"--controllers="+controllers,
		"--service-account-private-key-file="+c.path("pki", "accounts.key"), "--root-ca-file="+c.path("pki", "ca.crt"),
		"--use-service-account-credentials=true", "--kube-api-qps=1000", "--kube-api-burst=1000", // an account per controller, at once
		"--cluster-signing-cert-file="+c.path("pki", "ca.crt"), "--cluster-signing-key-file="+c.path("pki", "ca.key"),
		"--flex-volume-plugin-dir="+c.path("flexvolume"))
	if err != nil {
		return err
	}
	return c.Namespace(ctx, metav1.NamespaceDefault)
}

func (c *Cluster) startScheduler(ctx context.Context) (err error) {
	if c.options.Components.has(Scheduler) {
		c.Scheduler, err = c.startClient(ctx, Scheduler, "kube-scheduler", "system:kube-scheduler")
	}
	return err
}

// startClient starts a client of the API server that serves its own health endpoint.
func (c *Cluster) startClient(ctx context.Context, which Components, name, user string, args ...string) (*Component, error) {
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	config, err := c.Kubeconfig(c.As(user))
	if err != nil {
		return nil, err
	}
	args = append([]string{
		"--kubeconfig=" + config, "--authentication-kubeconfig=" + config, "--authorization-kubeconfig=" + config,
		"--bind-address=127.0.0.1", "--secure-port=" + ports[0],
		"--tls-cert-file=" + c.path("pki", "server.crt"), "--tls-private-key-file=" + c.path("pki", "server.key"),
		"--leader-elect=false", "--authentication-skip-lookup=true",
	}, args...)
	component, err := c.component(which, name, answers(c.trusting(), "https://127.0.0.1:"+ports[0]+"/healthz"), nil, args...)
	if err != nil {
		return nil, err
	}
	return component, component.start(ctx)
}

// trusting returns a client that trusts the cluster's authority.
func (c *Cluster) trusting() *http.Client {
	pool := x509.NewCertPool()
	pool.AddCert(c.authority.cert)
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}}
}

// answers returns a check of a health endpoint.
func answers(client *http.Client, url string) func(context.Context) error {
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10))
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("GET %s: %s: %s", url, response.Status, text)
		}
		return nil
	}
}

// Ports of servers are below the kernel's range for client ports (32768 and above on Linux), so
// that no outgoing connection takes a port before its server starts.
const (
	lowestPort  = 20000
	highestPort = 32000
)

// freePorts returns loopback ports without a listener. No cluster chooses one of them again while this process
// runs: neither before its server listens, nor while the server is restarted or its gate refuses.
func freePorts(n int) ([]string, error) {
	var ports []string
	for range 1000 {
		if len(ports) == n {
			return ports, nil
		}
		port := strconv.Itoa(lowestPort + rand.IntN(highestPort-lowestPort))
		if !reserve(port) {
			continue
		}
		l, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err != nil {
			continue // in use
		}
		_ = l.Close() // nothing was accepted
		ports = append(ports, port)
	}
	return nil, fmt.Errorf("find %d free ports between %d and %d on loopback: found %d", n, lowestPort, highestPort, len(ports))
}

// reservations holds the sockets of reserve until the process ends.
var reservations sync.Map // port → net.Listener

// reserve reports whether no process had chosen a port. Its choice is a socket with an abstract name (unix(7)): it
// excludes other processes, has no file, and ends with this process.
func reserve(port string) bool {
	l, err := net.Listen("unix", "@plimsoll-test-port-"+port)
	if err == nil {
		reservations.Store(port, l)
	}
	return err == nil
}
