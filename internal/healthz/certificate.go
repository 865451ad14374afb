package healthz

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net/netip"
	"sync"
	"time"
)

// TLS returns the configuration of a server with the certificate and key in two files, which are
// read again once a minute. Without files the certificate is self-signed, created now and stored in
// memory: it encrypts tokens on the way and authenticates nothing. Returns an error if the files
// contain no certificate and its key.
func TLS(certFile, keyFile string, log *slog.Logger) (*tls.Config, error) {
	if certFile == "" {
		own, err := selfSigned(time.Now())
		if err != nil {
			return nil, err
		}
		return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*own}}, nil
	}
	f := &filedCertificate{cert: certFile, key: keyFile, log: log}
	if err := f.read(time.Now()); err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: f.get}, nil
}

// Bounds of TLS handshakes, each of which costs a signature: per second and burst, from one source
// and altogether.
const (
	sourceHandshakes, sourceHandshakeBurst = 20, 100.
	handshakes, handshakeBurst             = 1000, 2000.
)

// errHandshakes is the error of a handshake above the bounds.
var errHandshakes = errors.New("too many TLS handshakes")

// boundHandshakes returns a copy of a configuration that ends handshakes above the bounds before
// they cost a signature.
func boundHandshakes(config *tls.Config) *tls.Config {
	var mu sync.Mutex
	all := bucket{rate: handshakes, burst: handshakeBurst}
	sources := table[netip.Prefix, bucket]{max: maxSources}
	bounded := config.Clone()
	bounded.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		now, from := time.Now(), sourceOf(hello.Conn.RemoteAddr())
		mu.Lock()
		defer mu.Unlock()
		source := sources.get(from, now)
		if source == nil {
			source = sources.put(from, bucket{rate: sourceHandshakes, burst: sourceHandshakeBurst}, now)
		}
		// The source's own share comes first: above it, a source uses nothing of the others' share.
		if !source.tryTake(now) || !all.tryTake(now) {
			return nil, errHandshakes
		}
		return nil, nil
	}
	return bounded
}

// selfSignedFor is the validity of a certificate in memory. The program is restarted more often,
// and clients do not verify it.
const selfSignedFor = 10 * 365 * 24 * time.Hour

func selfSigned(now time.Time) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key for the endpoints: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("make a certificate for the endpoints: %w", err)
	}
	shape := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "plimsoll"}, DNSNames: []string{"plimsoll"},
		NotBefore: now.Add(-24 * time.Hour), NotAfter: now.Add(selfSignedFor), // tolerates clock differences
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	signed, err := x509.CreateCertificate(rand.Reader, shape, shape, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("make a certificate for the endpoints: %w", err)
	}
	return &tls.Certificate{Certificate: [][]byte{signed}, PrivateKey: key}, nil
}

// certificatePeriod is the interval between reads of the files.
const certificatePeriod = time.Minute

// filedCertificate is a certificate in files that may change.
type filedCertificate struct {
	cert, key string
	log       *slog.Logger
	mu        sync.Mutex
	last      *tls.Certificate
	due       time.Time
}

// read replaces the certificate. The caller holds mu, or is the only user of f.
func (f *filedCertificate) read(now time.Time) error {
	f.due = now.Add(certificatePeriod)
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return fmt.Errorf("read the certificate of the endpoints (--tls-cert-file, --tls-private-key-file): %w", err)
	}
	f.last = &pair
	return nil
}

// get returns the certificate for a handshake.
func (f *filedCertificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); !now.Before(f.due) {
		if err := f.read(now); err != nil {
			f.log.Warn("Kept the previous certificate", "error", err)
		}
	}
	return f.last, nil
}
