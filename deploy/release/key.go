package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"
)

// fromEnvironment precedes the name of a variable with a key, as in cosign.
const fromEnvironment = "env://"

// maxKey bounds what is read as a key, in bytes.
const maxKey = 64 << 10

// readPrivateKey reads a key of the curve P-256, in a PEM block of PKCS #8 or SEC 1. Returns an error for another
// one, and for an encrypted one.
func readPrivateKey(from string) (*ecdsa.PrivateKey, error) {
	text, err := keyText(from)
	if err != nil {
		return nil, err
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		var key any
		switch {
		case block.Type == "EC PARAMETERS": // openssl ecparam writes them before the key
			continue
		case block.Type == "PRIVATE KEY":
			key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
		case block.Type == "EC PRIVATE KEY" && block.Headers["DEK-Info"] == "":
			key, err = x509.ParseECPrivateKey(block.Bytes)
		default:
			return nil, fmt.Errorf("read the key %s: a PEM block of type %q, encrypted or of another kind: decrypt it with openssl pkcs8", from, block.Type)
		}
		if err != nil {
			return nil, fmt.Errorf("read the key %s: %w", from, err)
		}
		private, is := key.(*ecdsa.PrivateKey)
		if !is || private.Curve != elliptic.P256() {
			return nil, fmt.Errorf("read the key %s: it is no ECDSA key of the curve P-256: make one with openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256", from)
		}
		return private, nil
	}
	return nil, fmt.Errorf("read the key %s: it has no PEM block with a private key", from)
}

// readPublicKey reads a key of the curve P-256, in a PEM block. Returns an error for another one.
func readPublicKey(from string) (*ecdsa.PublicKey, error) {
	text, err := keyText(from)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "PUBLIC KEY" {
		return nil, fmt.Errorf("read the key %s: it has no PEM block of type PUBLIC KEY", from)
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read the key %s: %w", from, err)
	}
	public, is := key.(*ecdsa.PublicKey)
	if !is || public.Curve != elliptic.P256() {
		return nil, fmt.Errorf("read the key %s: it is no ECDSA key of the curve P-256", from)
	}
	return public, nil
}

func keyText(from string) ([]byte, error) {
	if from == "" {
		return nil, errors.New("there is no key: set -key")
	}
	if name, is := strings.CutPrefix(from, fromEnvironment); is {
		return []byte(os.Getenv(name)), nil
	}
	info, err := os.Stat(from)
	if err != nil {
		return nil, fmt.Errorf("read the key: %w", err)
	}
	if info.Size() > maxKey {
		return nil, fmt.Errorf("read the key %s: it has %d bytes, at most %d are read", from, info.Size(), maxKey)
	}
	return os.ReadFile(from)
}

// signature returns the signature of a payload in base64, as cosign writes it: ECDSA of its SHA-256, in ASN.1. The nonce
// follows from key and payload (RFC 6979), so that a release can be repeated with its signatures.
func signature(key *ecdsa.PrivateKey, payload []byte) (string, error) {
	sum := sha256.Sum256(payload)
	raw, err := key.Sign(nil, sum[:], crypto.SHA256)
	return base64.StdEncoding.EncodeToString(raw), err
}

// checkSignature returns an error unless text is a signature of the payload.
func checkSignature(key *ecdsa.PublicKey, payload []byte, text string) error {
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil {
		return fmt.Errorf("read the signature: %w", err)
	}
	sum := sha256.Sum256(payload)
	if !ecdsa.VerifyASN1(key, sum[:], raw) {
		return errors.New("the signature is of another key or another content")
	}
	return nil
}
