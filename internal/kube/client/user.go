package client

import (
	"errors"
	"os"
	"path/filepath"
)

// ErrNoCluster is the error of [DialAsUser] if nothing says where the API server is.
var ErrNoCluster = errors.New("no API server is known: give --kubeconfig, set KUBECONFIG, write ~/.kube/config, or run in a pod with a service account")

// DialAsUser prepares to speak to the API server as kubectl does: by the kubeconfig, else
// by KUBECONFIG, ~/.kube/config or the pod's service account. Returns ErrNoCluster if
// nothing says where the server is.
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

// kubeconfigs are the files that kubectl would merge: all that KUBECONFIG names, or
// that of the home directory unless this is a pod. None is the pod's service account.
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
