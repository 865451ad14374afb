package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// nodeName is the name of the node.
const nodeName = "node"

// kubeconfig is that of the kubelet. The server is on the loopback interface and accepts any token.
const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: bare, cluster: {server: "http://%s"}}]
users: [{name: node, user: {token: bare}}]
contexts: [{name: bare, context: {cluster: bare, user: node}}]
current-context: bare
`

type options struct{ kubelet, config, manifests, pods, dir string }

func main() {
	var o options
	flag.StringVar(&o.kubelet, "kubelet", "kubelet", "program of the kubelet")
	flag.StringVar(&o.config, "config", "", "KubeletConfiguration with the endpoint unix://DIRECTORY/runtime.sock and contentType application/json")
	flag.StringVar(&o.manifests, "manifests", "", "directory with an object of a pod in each file")
	flag.StringVar(&o.pods, "pods", "", "directory above the cgroups of pods")
	flag.StringVar(&o.dir, "dir", "", "directory for the kubelet's files")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := o.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "barekubelet:", err)
		os.Exit(1)
	}
}

// run serves the kubelet until it ends, or until the context does.
func (o *options) run(ctx context.Context) error {
	if o.config == "" || o.manifests == "" || o.pods == "" || o.dir == "" {
		return errors.New("-config, -manifests, -pods and -dir are required: see -help")
	}
	api := newAPI()
	failed := make(chan error, 3)
	known, err := o.follow(api, failed)
	if err != nil {
		return err
	}
	address, err := serveAPI(api, failed)
	if err != nil {
		return err
	}
	r := newRuntime(&pods{o.pods}, known, func() { fmt.Println("every pod runs") })
	if err := serveRuntime(r, filepath.Join(o.dir, "runtime.sock"), failed); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(o.dir, "kubeconfig"), fmt.Appendf(nil, kubeconfig, address), 0o600); err != nil {
		return err
	}
	return o.runKubelet(ctx, failed)
}

// follow serves the pods of the manifests, those that exist now and later ones. Returns the number of those that
// exist.
func (o *options) follow(api *api, failed chan<- error) (int, error) {
	m := &manifests{dir: o.manifests, api: api, known: map[string]bool{}}
	if err := m.watch(); err != nil {
		return 0, fmt.Errorf("watch %s: %w", o.manifests, err)
	}
	if err := m.read(); err != nil {
		return 0, err
	}
	n := len(m.known)
	go func() { failed <- m.follow() }()
	return n, nil
}

func serveAPI(api *api, failed chan<- error) (address string, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := &http.Server{Handler: api, ReadHeaderTimeout: time.Minute}
	go func() { failed <- server.Serve(listener) }()
	return listener.Addr().String(), nil
}

func serveRuntime(r *runtime, socket string, failed chan<- error) error {
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	runtimeapi.RegisterRuntimeServiceServer(server, r)
	runtimeapi.RegisterImageServiceServer(server, images{dir: filepath.Dir(socket)})
	go func() { failed <- server.Serve(listener) }()
	return nil
}

// stopTimeout bounds the end of the kubelet after SIGTERM.
const stopTimeout = 20 * time.Second

func (o *options) runKubelet(ctx context.Context, failed <-chan error) error {
	cmd := exec.CommandContext(ctx, o.kubelet, "--config="+o.config, "--kubeconfig="+filepath.Join(o.dir, "kubeconfig"),
		"--root-dir="+filepath.Join(o.dir, "kubelet"), "--cert-dir="+filepath.Join(o.dir, "certificates"), "--hostname-override="+nodeName)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopTimeout
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the kubelet: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		if ctx.Err() != nil { // the caller has ended it
			return nil
		}
		return fmt.Errorf("the kubelet has ended: %w", errors.Join(err, errEnded))
	case err := <-failed:
		return errors.Join(err, cmd.Process.Kill())
	}
}

// errEnded makes an error of an exit with status 0 too.
var errEnded = errors.New("it never ends by itself")
