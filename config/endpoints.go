package config

import (
	"path/filepath"

	"plimsoll.dev/plimsoll/internal/strictyaml"
)

// Endpoints say where health, metrics and diagnostics are served beside
// healthzBindAddress, and by which certificate.
type Endpoints struct {
	HealthSocket      string // empty: none
	TLSCertFile       string // empty: a certificate in memory
	TLSPrivateKeyFile string
}

// endpointOptions are those of one program.
func endpointOptions[C any](of func(*C) *Endpoints) []option[C] {
	return []option[C]{
		{field: "healthSocket", flag: "health-socket", setText: socketPath(func(c *C) *string { return &of(c).HealthSocket }),
			help: "Unix socket for probes by `plimsoll health`, which other pods can not reach; it serves all endpoints to the user of the process; empty: none"},
		{field: "tlsCertFile", flag: "tls-cert-file", setText: str(func(c *C) *string { return &of(c).TLSCertFile }),
			help: "PEM file with the certificate of a healthzBindAddress beyond loopback, read again once a minute; empty: a self-signed certificate in memory"},
		{field: "tlsPrivateKeyFile", flag: "tls-private-key-file", setText: str(func(c *C) *string { return &of(c).TLSPrivateKeyFile }),
			help: "PEM file with the private key of tlsCertFile"},
	}
}

var (
	agentEndpoints      = endpointOptions(func(c *Agent) *Endpoints { return &c.Endpoints })
	controllerEndpoints = endpointOptions(func(c *Controller) *Endpoints { return &c.Endpoints })
)

// maxSocketPath is the longest path that the kernel takes for a Unix socket, in
// bytes.
const maxSocketPath = 107

func socketPath[C any](of func(*C) *string) setter[C] {
	return checked(of, func(text string) (string, bool) {
		return text, text == "" || filepath.IsAbs(text) && filepath.Clean(text) == text && len(text) <= maxSocketPath
	}, "must be an absolute path of at most 107 bytes, or empty")
}

// validate reports half of a pair of certificate and key.
func (e *Endpoints) validate(where func(string) string, faults *strictyaml.Faults) {
	switch {
	case e.TLSCertFile != "" && e.TLSPrivateKeyFile == "":
		faults.Add(where("tlsCertFile"), e.TLSCertFile, "needs tlsPrivateKeyFile")
	case e.TLSCertFile == "" && e.TLSPrivateKeyFile != "":
		faults.Add(where("tlsPrivateKeyFile"), e.TLSPrivateKeyFile, "needs tlsCertFile")
	}
}
