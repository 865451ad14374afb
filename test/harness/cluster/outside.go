package cluster

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// outsideVariable names a directory that [Cluster.Export] wrote on another machine. The control
// plane runs there, and this machine has only the node.
const outsideVariable = "CONTROL_PLANE"

// Files of an exported control plane.
const (
	urlFile  = "url"
	portFile = "kubelet-port"
)

// FreePort returns a loopback port without a listener, which no cluster chooses while this process runs. Returns an
// error if none is found.
func FreePort() (string, error) {
	ports, err := freePorts(1)
	if err != nil {
		return "", err
	}
	return ports[0], nil
}

// Export writes what a node on another machine needs to join this control plane: the authority
// with its key, the URL of the API server as seen from there, and the port at which the kubelet
// listens there and the API server reaches it on this machine's loopback. Returns the error of a
// write.
func (c *Cluster) Export(dir, host, kubeletPort string) error {
	key, err := encodeKey(c.authority.key)
	if err != nil {
		return err
	}
	own, err := url.Parse(c.url)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := (pair{c.authority.pem, key}).write(dir, "ca"); err != nil {
		return err
	}
	for name, text := range map[string]string{urlFile: "https://" + host + ":" + own.Port(), portFile: kubeletPort} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// outside returns the value of an exported control plane's file, or "" without one.
func outside(name string) (string, error) {
	dir := os.Getenv(outsideVariable)
	if dir == "" {
		return "", nil
	}
	text, err := os.ReadFile(filepath.Join(dir, name))
	return strings.TrimSpace(string(text)), err
}

// authorityOf returns the authority of the exported control plane, or a new one.
func authorityOf() (*authority, error) {
	if os.Getenv(outsideVariable) == "" {
		return newAuthority()
	}
	cert, err := outside("ca.crt")
	if err != nil {
		return nil, err
	}
	key, err := outside("ca.key")
	if err != nil {
		return nil, err
	}
	certDER, _ := pem.Decode([]byte(cert))
	keyDER, _ := pem.Decode([]byte(key))
	if certDER == nil || keyDER == nil {
		return nil, fmt.Errorf("read the authority in %s: no PEM block", os.Getenv(outsideVariable))
	}
	a := &authority{pem: []byte(cert + "\n")}
	if a.cert, err = x509.ParseCertificate(certDER.Bytes); err != nil {
		return nil, err
	}
	a.key, err = x509.ParseECPrivateKey(keyDER.Bytes)
	return a, err
}

// join uses the exported control plane in place of components of this machine, which then can
// not be paused or stopped.
func (c *Cluster) join(ctx context.Context) (joined bool, err error) {
	if c.url, err = outside(urlFile); err != nil || c.url == "" {
		return false, err
	}
	for name, component := range map[string]**Component{"kube-apiserver": &c.APIServer, "kube-controller-manager": &c.Controllers, "kube-scheduler": &c.Scheduler} {
		*component = &Component{Name: name, Log: c.path("logs", name+".log")}
	}
	clients, err := c.Clients()
	if err != nil {
		return true, err
	}
	if err := await(ctx, func(ctx context.Context) error {
		return clients.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	}); err != nil {
		return true, fmt.Errorf("reach the API server at %s: %w", c.url, err)
	}
	return true, c.startProxies(strings.TrimPrefix(c.url, "https://"))
}

// kubeletEndpoint returns the address and the ports of the kubelet's server and of its health
// endpoint.
func kubeletEndpoint() (address string, ports []string, err error) {
	if ports, err = freePorts(2); err != nil {
		return "", nil, err
	}
	given, err := outside(portFile)
	if err != nil || given == "" {
		return "127.0.0.1", ports, err
	}
	ports[0] = given
	return "0.0.0.0", ports, nil
}
