package main

import (
	"bytes"
	"crypto/ecdsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/deploy/internal/artifact"
)

// Files that sign writes, beside the signature of the checksums.
const (
	envelopeFile    = "provenance.intoto.json"
	signatureEnding = ".sig.tar"
)

// statementMedia is the type of the signed provenance.
const statementMedia = "application/vnd.in-toto+json"

// What cosign reads in a registry: the type of the signed text, and the annotation with its signature.
const (
	simpleSigning       = "application/vnd.dev.cosign.simplesigning.v1+json"
	signatureAnnotation = "dev.cosignproject.cosign/signature"
	imageConfig         = "application/vnd.oci.image.config.v1+json"
)

// claim is the signed text for an image: that it has this name and digest.
type claim struct {
	Critical struct {
		Identity struct {
			Reference string `json:"docker-reference"`
		} `json:"identity"`
		Image struct {
			Digest string `json:"docker-manifest-digest"`
		} `json:"image"`
		Type string `json:"type"`
	} `json:"critical"`
	Optional map[string]string `json:"optional"`
}

const claimType = "cosign container image signature"

func (p pushed) claim() claim {
	var c claim
	c.Critical.Identity.Reference = p.name
	c.Critical.Image.Digest = p.digest
	c.Critical.Type = claimType
	return c
}

// envelope is a signed statement (DSSE).
type envelope struct {
	PayloadType string              `json:"payloadType"`
	Payload     string              `json:"payload"`
	Signatures  []envelopeSignature `json:"signatures"`
}

type envelopeSignature struct {
	KeyID string `json:"keyid"`
	Sig   string `json:"sig"`
}

// preAuthentication returns what the signature of an envelope covers: type and payload, each with its length.
func preAuthentication(kind string, payload []byte) []byte {
	return slices.Concat([]byte("DSSEv1 "+strconv.Itoa(len(kind))+" "+kind+" "+strconv.Itoa(len(payload))+" "), payload)
}

// sign signs a release: its checksums, its provenance, and the digests of image and chart, as registries store them. The
// same key gives the same signatures. Returns an error if the files are not those of the checksums.
func sign(dir string, key *ecdsa.PrivateKey) error {
	if err := checkContent(dir); err != nil {
		return err
	}
	list, err := os.ReadFile(filepath.Join(dir, checksumsFile))
	if err != nil {
		return err
	}
	signed, err := signature(key, list)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, checksumsFile+".sig"), []byte(signed+"\n"), 0o644); err != nil {
		return err
	}
	if err := signProvenance(dir, key); err != nil {
		return err
	}
	images, err := readImages(dir)
	if err != nil {
		return err
	}
	for _, i := range images {
		if err := i.sign(dir, key); err != nil {
			return fmt.Errorf("sign %s: %w", i.name, err)
		}
	}
	return nil
}

func signProvenance(dir string, key *ecdsa.PrivateKey) error {
	payload, err := os.ReadFile(filepath.Join(dir, provenanceFile))
	if err != nil {
		return err
	}
	signed, err := signature(key, preAuthentication(statementMedia, payload))
	if err != nil {
		return err
	}
	text, err := json.Marshal(envelope{statementMedia, base64.StdEncoding.EncodeToString(payload), []envelopeSignature{{Sig: signed}}})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, envelopeFile), append(text, '\n'), 0o644)
}

// sign writes the signature of an image as an artifact for its registry.
func (p pushed) sign(dir string, key *ecdsa.PrivateKey) error {
	payload, err := json.Marshal(p.claim())
	if err != nil {
		return err
	}
	signed, err := signature(key, payload)
	if err != nil {
		return err
	}
	layer := artifact.Blob{MediaType: simpleSigning, Text: payload, Annotations: map[string]string{signatureAnnotation: signed}}
	// The configuration of an image without a program. It has no time: that of the release is in the image.
	never := time.Time{}
	config, err := json.Marshal(map[string]any{
		"architecture": "", "os": "", "config": map[string]any{}, "created": never,
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{layer.Digest()}},
	})
	if err != nil {
		return err
	}
	a := artifact.Artifact{Config: artifact.Blob{MediaType: imageConfig, Text: config}, Layers: []artifact.Blob{layer}}
	file, tag := p.signature()
	_, err = a.Write(filepath.Join(dir, file), tag, time.Unix(0, 0))
	return err
}

// verify returns an error with everything in a release that a key did not sign: checksums, files, provenance, image and
// chart.
func verify(dir string, key *ecdsa.PublicKey) error {
	list, err := os.ReadFile(filepath.Join(dir, checksumsFile))
	if err != nil {
		return err
	}
	signed, err := os.ReadFile(filepath.Join(dir, checksumsFile+".sig"))
	if err != nil {
		return err
	}
	if err := checkSignature(key, list, string(signed)); err != nil {
		return fmt.Errorf("%s: %w", checksumsFile, err)
	}
	if err := checkContent(dir); err != nil {
		return err
	}
	faults := []error{verifyProvenance(dir, key)}
	images, err := readImages(dir)
	for _, i := range images {
		if err := i.verify(dir, key); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", i.name, err))
		}
	}
	return errors.Join(append(faults, err)...)
}

// checkContent returns an error if a file is not the one of the checksums, if the provenance does not cover it, or if an
// archive is not the one of the list of images.
func checkContent(dir string) error {
	if err := checkChecksums(dir); err != nil {
		return err
	}
	images, err := readImages(dir)
	if err != nil {
		return err
	}
	for _, i := range images {
		l, err := artifact.Read(filepath.Join(dir, i.archive))
		if err != nil {
			return err
		}
		if l.Digest != i.digest || l.Tag != i.tag {
			return fmt.Errorf("%s contains %s %s, and %s lists %s", i.archive, l.Tag, l.Digest, imagesFile, i)
		}
	}
	return checkSubjects(dir, images)
}

// checkSubjects returns an error with everything in a release that is no subject of its provenance.
func checkSubjects(dir string, images []pushed) error {
	text, err := os.ReadFile(filepath.Join(dir, provenanceFile))
	if err != nil {
		return err
	}
	var s statement
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("read %s: %w", provenanceFile, err)
	}
	want, err := checksums(dir)
	if err != nil {
		return err
	}
	delete(want, provenanceFile)
	for _, i := range images {
		want[i.name] = strings.TrimPrefix(i.digest, "sha256:")
	}
	var faults []error
	for _, subject := range s.Subject {
		if want[subject.Name] != subject.Digest["sha256"] {
			faults = append(faults, fmt.Errorf("%s: %s has the digest %q, not %s", provenanceFile, subject.Name, want[subject.Name], subject.Digest["sha256"]))
		}
		delete(want, subject.Name)
	}
	for name := range want {
		faults = append(faults, fmt.Errorf("%s has no subject %s", provenanceFile, name))
	}
	return errors.Join(faults...)
}

func verifyProvenance(dir string, key *ecdsa.PublicKey) error {
	text, err := os.ReadFile(filepath.Join(dir, envelopeFile))
	if err != nil {
		return err
	}
	plain, err := os.ReadFile(filepath.Join(dir, provenanceFile))
	if err != nil {
		return err
	}
	var e envelope
	if err := json.Unmarshal(text, &e); err != nil {
		return fmt.Errorf("read %s: %w", envelopeFile, err)
	}
	payload, err := base64.StdEncoding.DecodeString(e.Payload)
	if err != nil || e.PayloadType != statementMedia || !bytes.Equal(payload, plain) || len(e.Signatures) != 1 {
		return fmt.Errorf("%s does not contain %s once, with one signature", envelopeFile, provenanceFile)
	}
	if err := checkSignature(key, preAuthentication(e.PayloadType, payload), e.Signatures[0].Sig); err != nil {
		return fmt.Errorf("%s: %w", envelopeFile, err)
	}
	return nil
}

// verify returns an error unless the signature of an image is of the key, and for its digest.
func (p pushed) verify(dir string, key *ecdsa.PublicKey) error {
	file, tag := p.signature()
	l, err := artifact.Read(filepath.Join(dir, file))
	if err != nil {
		return err
	}
	a, err := l.Artifact()
	if err != nil {
		return err
	}
	if l.Tag != tag || len(a.Layers) != 1 {
		return fmt.Errorf("%s has the tag %s and %d layers, not %s and one", file, l.Tag, len(a.Layers), tag)
	}
	layer := a.Layers[0]
	var c claim
	if err := json.Unmarshal(layer.Text, &c); err != nil || c.Critical != p.claim().Critical {
		return fmt.Errorf("%s is not for %s", file, p)
	}
	if err := checkSignature(key, layer.Text, layer.Annotations[signatureAnnotation]); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}
