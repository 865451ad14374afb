package options

import "plimsoll.dev/plimsoll/internal/strictyaml"

// Endpoints configures the listeners for health, metrics and diagnostics beside
// healthzBindAddress, and their certificate. Agent and controller share it.
type Endpoints struct {
	HealthSocket      string // path of a Unix socket; empty: none
	TLSCertFile       string // PEM; empty: a self-signed certificate in memory
	TLSPrivateKeyFile string // PEM
}

// EndpointOptions returns the options of the Endpoints in a configuration.
func EndpointOptions[C any](of func(*C) *Endpoints) []Option[C] {
	return []Option[C]{
		{Field: "healthSocket", Flag: "health-socket", Set: SocketPath(func(c *C) *string { return &of(c).HealthSocket }),
			Help: "Unix socket for probes by `plimsoll health`, unreachable for other pods. It serves all endpoints to the user of the process. Empty: none."},
		{Field: "tlsCertFile", Flag: "tls-cert-file", Set: String(func(c *C) *string { return &of(c).TLSCertFile }),
			Help: "PEM file with the certificate for a healthzBindAddress beyond loopback, reloaded every minute. Empty: a self-signed certificate in memory."},
		{Field: "tlsPrivateKeyFile", Flag: "tls-private-key-file", Set: String(func(c *C) *string { return &of(c).TLSPrivateKeyFile }),
			Help: "PEM file with the private key of tlsCertFile."},
	}
}

// Validate adds a fault if only one of certificate and key is set; where is
// [Origins.Where] of the configuration.
func (e *Endpoints) Validate(where func(field string) string, faults *strictyaml.Faults) {
	switch {
	case e.TLSCertFile != "" && e.TLSPrivateKeyFile == "":
		faults.Add(where("tlsCertFile"), e.TLSCertFile, "needs tlsPrivateKeyFile")
	case e.TLSCertFile == "" && e.TLSPrivateKeyFile != "":
		faults.Add(where("tlsPrivateKeyFile"), e.TLSPrivateKeyFile, "needs tlsCertFile")
	}
}
