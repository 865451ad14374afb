package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/deploy/internal/artifact"
)

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// unsigned writes a release with an image and a chart, and without programs.
func unsigned(t *testing.T) string {
	t.Helper()
	o := &order{
		tree: written(t, nil), out: t.TempDir(), version: "0.2.0", revision: strings.Repeat("a", 40),
		created: time.Date(2026, 11, 21, 20, 0, 0, 0, time.UTC),
	}
	var images []pushed
	var list string
	for _, name := range []string{"image", "chart"} {
		a := artifact.Artifact{Config: artifact.Blob{MediaType: "application/json", Text: []byte("{}")}, Layers: []artifact.Blob{{MediaType: "text/plain", Text: []byte(name)}}}
		digest, err := a.Write(filepath.Join(o.out, o.file("-"+name+".tar")), o.version, o.created)
		if err != nil {
			t.Fatal(err)
		}
		i := pushed{o.file("-" + name + ".tar"), "registry.example:5000/" + name, o.version, digest}
		images, list = append(images, i), list+i.String()+"\n"
	}
	if err := errors.Join(o.put(imagesFile, []byte(list)), o.put(notesFile, []byte("One.\n")), o.writeProvenance(nil, images), writeChecksums(o.out)); err != nil {
		t.Fatal(err)
	}
	return o.out
}

func signed(t *testing.T, key *ecdsa.PrivateKey) string {
	t.Helper()
	dir := unsigned(t)
	if err := sign(dir, key); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestVerify_AcceptsSignedRelease(t *testing.T) {
	key := newKey(t)
	dir := signed(t, key)
	if err := verify(dir, &key.PublicKey); err != nil {
		t.Error(err)
	}
	if err := sign(dir, key); err != nil {
		t.Errorf("the second time: %v", err)
	}
	if err := verify(dir, &newKey(t).PublicKey); err == nil {
		t.Error("another key was accepted")
	}
}

// TestVerify_RefusesEveryChange changes each file of a release in turn: its first and last byte, and its existence.
func TestVerify_RefusesEveryChange(t *testing.T) {
	key := newKey(t)
	dir := signed(t, key)
	if len(content(t, dir)) != 10 {
		t.Errorf("the release has %d files, want 10", len(content(t, dir)))
	}
	for name, text := range content(t, dir) {
		file := filepath.Join(dir, name)
		for change, changed := range map[string]string{
			"first byte": string(text[0]^1) + text[1:],
			"half":       text[:len(text)/2],
			"more":       text + "x",
		} {
			if strings.HasSuffix(name, ".sig.tar") && change == "more" {
				continue // a tar archive ends before
			}
			if err := os.WriteFile(file, []byte(changed), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := verify(dir, &key.PublicKey); err == nil {
				t.Errorf("%s, %s: accepted", name, change)
			}
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if err := verify(dir, &key.PublicKey); err == nil {
			t.Errorf("without %s: accepted", name)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "more.tar"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := verify(dir, &key.PublicKey); err == nil || !strings.Contains(err.Error(), "more.tar is not in checksums.txt") {
		t.Errorf("with another file: %v", err)
	}
}

// TestVerify_RefusesSignaturesOfAnotherRelease exchanges signatures of one key between two releases.
func TestVerify_RefusesSignaturesOfAnotherRelease(t *testing.T) {
	key := newKey(t)
	one, two := signed(t, key), unsigned(t)
	if err := errors.Join(os.WriteFile(filepath.Join(two, notesFile), []byte("Two.\n"), 0o644), writeChecksums(two)); err != nil {
		t.Fatal(err)
	}
	if err := sign(two, key); err == nil || !strings.Contains(err.Error(), notesFile) {
		t.Errorf("files that the provenance does not cover were signed: %v", err)
	}
	for name, text := range content(t, one) {
		if isSignature(name) {
			if err := os.WriteFile(filepath.Join(two, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := verify(two, &key.PublicKey); err == nil {
		t.Error("signatures of another release were accepted")
	}
	image, chart := filepath.Join(one, "plimsoll-0.2.0-image.sig.tar"), filepath.Join(one, "plimsoll-0.2.0-chart.sig.tar")
	text, err := os.ReadFile(image)
	if err := errors.Join(err, os.WriteFile(chart, text, 0o644)); err != nil {
		t.Fatal(err)
	}
	if err := verify(one, &key.PublicKey); err == nil || !strings.Contains(err.Error(), "registry.example:5000/chart") {
		t.Errorf("the image's signature for the chart: %v", err)
	}
}

// TestSignature_OfImageHasCosignsForm compares with cosign's specification.
func TestSignature_OfImageHasCosignsForm(t *testing.T) {
	dir := signed(t, newKey(t))
	images, err := readImages(dir)
	if err != nil || len(images) != 2 {
		t.Fatalf("got %v, %v", images, err)
	}
	l, err := artifact.Read(filepath.Join(dir, "plimsoll-0.2.0-image.sig.tar"))
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Replace(images[0].digest, "sha256:", "sha256-", 1) + ".sig"; l.Tag != want {
		t.Errorf("the tag is %s, want %s", l.Tag, want)
	}
	a, err := l.Artifact()
	if err != nil || len(a.Layers) != 1 {
		t.Fatalf("got %+v, %v", a, err)
	}
	want := `{"critical":{"identity":{"docker-reference":"registry.example:5000/image"},"image":{"docker-manifest-digest":"` + images[0].digest +
		`"},"type":"cosign container image signature"},"optional":null}`
	layer := a.Layers[0]
	if string(layer.Text) != want || layer.MediaType != "application/vnd.dev.cosign.simplesigning.v1+json" || layer.Annotations["dev.cosignproject.cosign/signature"] == "" {
		t.Errorf("the layer is %+v with %s, want %s", layer, layer.Text, want)
	}
}

// TestSignature_IsVerifiedByOpenSSL verifies each signature by another implementation.
func TestSignature_IsVerifiedByOpenSSL(t *testing.T) {
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Skipf("openssl does not exist here: %v", err)
	}
	dir, private, public := t.TempDir(), filepath.Join(t.TempDir(), "key"), filepath.Join(t.TempDir(), "public")
	must := func(args ...string) {
		t.Helper()
		if out, err := exec.Command(openssl, args...).CombinedOutput(); err != nil {
			t.Fatalf("openssl %q: %v\n%s", args, err, out)
		}
	}
	must("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", private)
	must("pkey", "-in", private, "-pubout", "-out", public)
	key, err := readPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	release := signed(t, key)
	files := content(t, release)
	verified := func(payload []byte, signature string) {
		t.Helper()
		raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(signature))
		if err := errors.Join(err, os.WriteFile(filepath.Join(dir, "payload"), payload, 0o644), os.WriteFile(filepath.Join(dir, "raw"), raw, 0o644)); err != nil {
			t.Fatal(err)
		}
		must("dgst", "-sha256", "-verify", public, "-signature", filepath.Join(dir, "raw"), filepath.Join(dir, "payload"))
	}
	verified([]byte(files[checksumsFile]), files[checksumsFile+".sig"])
	var e envelope
	if err := json.Unmarshal([]byte(files[envelopeFile]), &e); err != nil {
		t.Fatal(err)
	}
	verified([]byte("DSSEv1 28 application/vnd.in-toto+json "+lengthOf(files[provenanceFile])+" "+files[provenanceFile]), e.Signatures[0].Sig)
	l, err := artifact.Read(filepath.Join(release, "plimsoll-0.2.0-chart.sig.tar"))
	if err != nil {
		t.Fatal(err)
	}
	a, err := l.Artifact()
	if err != nil {
		t.Fatal(err)
	}
	verified(a.Layers[0].Text, a.Layers[0].Annotations[signatureAnnotation])
	given, err := readPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	if err := verify(release, given); err != nil {
		t.Error(err)
	}
}

func lengthOf(text string) string {
	length, err := json.Marshal(len(text))
	if err != nil {
		return err.Error()
	}
	return string(length)
}

// TestSignature_IsReproducible: the nonce of a signature follows from key and content.
func TestSignature_IsReproducible(t *testing.T) {
	key := newKey(t)
	one, two := content(t, signed(t, key)), content(t, signed(t, key))
	for name, text := range one {
		if two[name] != text {
			t.Errorf("%s is not the same the second time", name)
		}
	}
}

func TestReadPrivateKey_AcceptsOnlyP256(t *testing.T) {
	block := func(kind string, der []byte, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	p256 := newKey(t)
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	sec1, err1 := x509.MarshalECPrivateKey(p256)
	pkcs8, err8 := x509.MarshalPKCS8PrivateKey(p256)
	large, errLarge := x509.MarshalPKCS8PrivateKey(p384)
	other, errOther := x509.MarshalPKCS8PrivateKey(rsaKey)
	public, errPublic := x509.MarshalPKIXPublicKey(&p256.PublicKey)
	for _, c := range []struct{ name, text, want string }{
		{"PKCS #8", block("PRIVATE KEY", pkcs8, err8), ""},
		{"SEC 1", block("EC PRIVATE KEY", sec1, err1), ""},
		{"SEC 1 behind its parameters", block("EC PARAMETERS", []byte{6, 0}, nil) + block("EC PRIVATE KEY", sec1, err1), ""},
		{"another curve", block("PRIVATE KEY", large, errLarge), "P-256"},
		{"RSA", block("PRIVATE KEY", other, errOther), "P-256"},
		{"a public key", block("PUBLIC KEY", public, errPublic), "of another kind"},
		{"encrypted", block("ENCRYPTED SIGSTORE PRIVATE KEY", []byte("x"), nil), "decrypt it"},
		{"damaged", block("PRIVATE KEY", pkcs8[1:], nil), "read the key"},
		{"no PEM", "key", "no PEM block"},
		{"too large", strings.Repeat("x", maxKey+1), "at most"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "key")
			if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			key, err := readPrivateKey(file)
			if c.want == "" && (err != nil || !key.Equal(p256)) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	t.Setenv("TEST_RELEASE_KEY", block("PRIVATE KEY", pkcs8, err8))
	if key, err := readPrivateKey("env://TEST_RELEASE_KEY"); err != nil || !key.Equal(p256) {
		t.Errorf("from the environment: %v", err)
	}
	if _, err := readPrivateKey(""); err == nil || !strings.Contains(err.Error(), "set -key") {
		t.Errorf("without a key: %v", err)
	}
}
