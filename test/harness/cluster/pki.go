package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// validity is the validity of every certificate: longer than any test, and short for a leaked
// key.
const validity = 24 * time.Hour

// SeenFromMachine is the address of this machine's loopback in a virtual machine of qemu with a
// user-mode network.
const SeenFromMachine = "10.0.2.2"

// authority signs the certificates of one cluster.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// pair is a certificate and its key, PEM.
type pair struct{ cert, key []byte }

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template, err := certificate(pkix.Name{CommonName: "plimsoll-test"})
	if err != nil {
		return nil, err
	}
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage |= x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("sign the authority's certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	return &authority{cert, key, block("CERTIFICATE", der)}, err
}

// client issues a client certificate for a user and groups.
func (a *authority) client(user string, groups ...string) (pair, error) {
	return a.issue(pkix.Name{CommonName: user, Organization: groups}, x509.ExtKeyUsageClientAuth)
}

// server issues the server certificate of every component on loopback.
func (a *authority) server() (pair, error) {
	return a.issue(pkix.Name{CommonName: "localhost"}, x509.ExtKeyUsageServerAuth)
}

func (a *authority) issue(name pkix.Name, usage x509.ExtKeyUsage) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, err
	}
	template, err := certificate(name)
	if err != nil {
		return pair{}, err
	}
	template.ExtKeyUsage = []x509.ExtKeyUsage{usage}
	template.DNSNames, template.IPAddresses = []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1), net.ParseIP(SeenFromMachine)}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return pair{}, fmt.Errorf("sign the certificate of %s: %w", name, err)
	}
	encoded, err := encodeKey(key)
	return pair{block("CERTIFICATE", der), encoded}, err
}

func certificate(name pkix.Name) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      name,
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(validity),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}, err
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	return block("EC PRIVATE KEY", der), err
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// certificate converts the pair for servers in this process.
func (p pair) certificate() (tls.Certificate, error) { return tls.X509KeyPair(p.cert, p.key) }

// write stores the pair below dir as NAME.crt and NAME.key.
func (p pair) write(dir, name string) error {
	if err := os.WriteFile(filepath.Join(dir, name+".crt"), p.cert, 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+".key"), p.key, 0o600)
}

// writePKI writes the files of the components: the authority, one server certificate, the API
// server's client certificate for the kubelet, and the key that signs service account tokens.
func (a *authority) writePKI(dir string) error {
	key, err := encodeKey(a.key)
	if err != nil {
		return err
	}
	server, err := a.server()
	if err != nil {
		return err
	}
	toKubelet, err := a.client("kube-apiserver-kubelet-client", "system:masters")
	if err != nil {
		return err
	}
	accounts, err := a.client("service-accounts") // only its key is used
	if err != nil {
		return err
	}
	for name, p := range map[string]pair{"ca": {a.pem, key}, "server": server, "kubelet-client": toKubelet, "accounts": accounts} {
		if err := p.write(dir, name); err != nil {
			return err
		}
	}
	return nil
}
