package healthz

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// issue writes a new certificate and its key, and returns the certificate.
func issue(t *testing.T, certFile, keyFile string) []byte {
	t.Helper()
	made, err := selfSigned(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(made.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: made.Certificate[0]}, keyFile: {Type: "PRIVATE KEY", Bytes: key}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return made.Certificate[0]
}

// TestTLS_ReadsRenewedFiles: a renewed certificate is served a minute later. While the files
// contain none, the previous one is served.
func TestTLS_ReadsRenewedFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
		first := issue(t, certFile, keyFile)
		config, err := TLS(certFile, keyFile, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		check := func(what string, want []byte) {
			t.Helper()
			got, err := config.GetCertificate(&tls.ClientHelloInfo{})
			if err != nil || !bytes.Equal(got.Certificate[0], want) {
				t.Errorf("%s: wrong certificate, or error %v", what, err)
			}
		}
		check("at first", first)
		if err := os.Remove(keyFile); err != nil {
			t.Fatal(err)
		}
		<-time.After(certificatePeriod)
		check("without a key", first)
		second := issue(t, certFile, keyFile)
		check("at once", first)
		<-time.After(certificatePeriod)
		check("a minute after the renewal", second)
	})
}
