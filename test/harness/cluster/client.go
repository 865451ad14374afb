package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Admin returns the configuration of a client with all permissions and without a request rate
// limit.
func (c *Cluster) Admin() *rest.Config { return c.As("admin", "system:masters") }

// As returns the configuration of a client with a certificate for any user and any groups. The
// client connects to the API server directly or through [Cluster.Link]; [Cluster.Front]
// supports bearer tokens only. As panics if the system has no randomness.
func (c *Cluster) As(user string, groups ...string) *rest.Config {
	p, err := c.authority.client(user, groups...)
	if err != nil {
		panic(fmt.Sprintf("make a client certificate for %s: %v", user, err))
	}
	config := c.anonymous()
	config.CertData, config.KeyData = p.cert, p.key
	return config
}

// Bearer returns the configuration of a client with a token, see [Cluster.Token].
func (c *Cluster) Bearer(token string) *rest.Config {
	config := c.anonymous()
	config.BearerToken = token
	return config
}

func (c *Cluster) anonymous() *rest.Config {
	return &rest.Config{Host: c.url, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: c.authority.pem}}
}

// Clients returns a client set with the configuration of Admin. Returns the error of the client
// library.
func (c *Cluster) Clients() (*kubernetes.Clientset, error) { return kubernetes.NewForConfig(c.Admin()) }

// tokenSeconds is the lifetime of a service account token in seconds.
const tokenSeconds int64 = 2 * 3600

// Token returns a bearer token of a service account. It creates the account and its namespace
// if they do not exist. RBAC defines the permissions of the token. Returns the error of the API
// server if it rejects a request.
func (c *Cluster) Token(ctx context.Context, namespace, account string) (string, error) {
	clients, err := c.Clients()
	if err != nil {
		return "", err
	}
	if err := c.Namespace(ctx, namespace); err != nil {
		return "", err
	}
	accounts := clients.CoreV1().ServiceAccounts(namespace)
	_, err = accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return "", err
	}
	seconds := tokenSeconds
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	answer, err := accounts.CreateToken(ctx, account, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("request a token of %s/%s: %w", namespace, account, err)
	}
	return answer.Status.Token, nil
}

// Namespace creates a namespace if it does not exist and waits until pods can be created in it.
// Returns an error if ctx ends first.
func (c *Cluster) Namespace(ctx context.Context, name string) error {
	clients, err := c.Clients()
	if err != nil {
		return err
	}
	_, err = clients.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	if c.Controllers == nil {
		return nil // no component needs an account
	}
	return await(ctx, func(ctx context.Context) error {
		_, err := clients.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

var kubeconfigs atomic.Int64

// Kubeconfig writes a client configuration to a file in the directory of the cluster and
// returns its path. Returns the error of that write.
func (c *Cluster) Kubeconfig(config *rest.Config) (path string, err error) {
	const name = "test"
	file := clientcmdapi.NewConfig()
	file.Clusters[name] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	file.AuthInfos[name] = &clientcmdapi.AuthInfo{
		ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, Token: config.BearerToken,
	}
	file.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	file.CurrentContext = name
	path = c.path("pki", "kubeconfig-"+strconv.FormatInt(kubeconfigs.Add(1), 10))
	return path, clientcmd.WriteToFile(*file, path)
}

// Kubectl runs kubectl as the administrator and returns its output. Returns an error if the
// binary is missing or exits with a code other than 0.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	path, err := program("kubectl")
	if err != nil {
		return "", err
	}
	config, err := c.Kubeconfig(c.Admin())
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, path, append([]string{"--kubeconfig=" + config, "--cache-dir=" + c.path("kubectl")}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("kubectl %v: %w\n%s", args, err, out)
	}
	return string(out), nil
}

// ApplyPolicy applies a file of deploy/admission. Before Kubernetes 1.36, a MutatingAdmissionPolicy has the
// version v1beta1.
func (c *Cluster) ApplyPolicy(ctx context.Context, file string) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(root, "deploy", "admission", file))
	if err != nil {
		return err
	}
	minor, err := c.minor(ctx)
	if err != nil {
		return err
	}
	if beta(minor) {
		text = bytes.ReplaceAll(text, []byte("apiVersion: admissionregistration.k8s.io/v1\nkind: Mutating"), []byte("apiVersion: admissionregistration.k8s.io/v1beta1\nkind: Mutating"))
	}
	converted := c.path(file)
	if err := os.WriteFile(converted, text, 0o644); err != nil {
		return err
	}
	_, err = c.Kubectl(ctx, "apply", "-f", converted)
	return err
}
