package fakeapiserver

import (
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// Server serves a cluster on 127.0.0.1, over TLS and HTTP/2.
type Server struct {
	// Kubeconfig is the path of the kubeconfig for clients.
	Kubeconfig string
	http       *httptest.Server
}

// Serve starts the server and writes the kubeconfig into dir. Returns the error of that write.
func (c *Cluster) Serve(dir string) (*Server, error) {
	s := &Server{Kubeconfig: filepath.Join(dir, "kubeconfig"), http: httptest.NewUnstartedServer(c)}
	s.http.EnableHTTP2 = true
	s.http.StartTLS()
	config := api.Config{
		Clusters:       map[string]*api.Cluster{"simulated": {Server: s.http.URL, CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.http.Certificate().Raw})}},
		Contexts:       map[string]*api.Context{"simulated": {Cluster: "simulated"}},
		CurrentContext: "simulated",
	}
	if err := clientcmd.WriteToFile(config, s.Kubeconfig); err != nil {
		s.Close()
		return nil, fmt.Errorf("write %s for the clients of the simulated cluster: %w", s.Kubeconfig, err)
	}
	return s, nil
}

// Close closes all watches and the server.
func (s *Server) Close() {
	s.http.CloseClientConnections()
	s.http.Close()
}
