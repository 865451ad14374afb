package main

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/deploy/internal/artifact"
)

// outcome is a release with an image and a chart, in a directory in which targets of the Makefile run.
type outcome struct {
	root, dir string
	images    []pushed
	private   string // files of the key
	public    string
}

// finished writes a release without programs, and a key.
func finished(t *testing.T) *outcome {
	t.Helper()
	if _, err := exec.LookPath("openssl"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("CI=true and openssl does not exist here: %v", err)
		}
		t.Skipf("openssl does not exist here: %v", err)
	}
	r := &outcome{root: t.TempDir()}
	r.dir = filepath.Join(r.root, "bin", "release")
	o := &order{tree: written(t, nil), out: r.dir, version: "0.2.0", revision: strings.Repeat("a", 40), created: time.Unix(1795289862, 0).UTC()}
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	var list string
	for _, name := range []string{"image", "chart"} {
		a := artifact.Artifact{Config: artifact.Blob{MediaType: "application/json", Text: []byte("{}")}, Layers: []artifact.Blob{{MediaType: "text/plain", Text: []byte(name)}}}
		digest, err := a.Write(filepath.Join(r.dir, o.file("-"+name+".tar")), o.version, o.created)
		if err != nil {
			t.Fatal(err)
		}
		i := pushed{o.file("-" + name + ".tar"), "registry.example:5000/" + name, o.version, digest}
		r.images, list = append(r.images, i), list+i.String()+"\n"
	}
	if err := errors.Join(o.put(imagesFile, []byte(list)), o.put(notesFile, []byte("One.\n")), o.writeProvenance(nil, r.images), writeChecksums(r.dir)); err != nil {
		t.Fatal(err)
	}
	r.private, r.public = newKey(t)
	return r
}

// newKey returns the files of a new key, made as RELEASING.md describes.
func newKey(t *testing.T) (private, public string) {
	t.Helper()
	dir := t.TempDir()
	private, public = filepath.Join(dir, "private.pem"), filepath.Join(dir, "public.pem")
	for _, args := range [][]string{
		{"genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", private},
		{"pkey", "-in", private, "-pubout", "-out", public},
	} {
		if out, err := exec.Command("openssl", args...).CombinedOutput(); err != nil {
			t.Fatalf("openssl %q: %v\n%s", args, err, out)
		}
	}
	return private, public
}

// make runs targets of the Makefile in the directory above bin/release, with variables of the environment.
func (r *outcome) make(t *testing.T, env []string, args ...string) (string, error) {
	t.Helper()
	makefile, err := filepath.Abs(here.path("Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "make", append([]string{"-C", r.root, "-f", makefile, "VERSION=0.2.0", "IMAGE=registry.example:5000/image", "PUBLIC_KEY=" + r.public}, args...)...)
	cmd.Env = append(append(os.Environ(), "RELEASE_KEY=", "UNSIGNED=", "KEY="), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (r *outcome) sign(t *testing.T) {
	t.Helper()
	if out, err := r.make(t, nil, "release-sign", "KEY="+r.private); err != nil {
		t.Fatalf("make release-sign: %v\n%s", err, out)
	}
}

// TestSign_TakesKeyFromFileOrVariable signs with both, and verifies.
func TestSign_TakesKeyFromFileOrVariable(t *testing.T) {
	r := finished(t)
	if out, err := r.make(t, nil, "release-verify"); err == nil {
		t.Errorf("a release without a signature was accepted: %s", out)
	}
	if out, err := r.make(t, nil, "release-sign"); err == nil || !strings.Contains(out, "there is no key") {
		t.Errorf("without a key: %v\n%s", err, out)
	}
	key := read(t, &tree{root: filepath.Dir(r.private)}, filepath.Base(r.private))
	for name, args := range map[string][2]string{"file": {"KEY=" + r.private, ""}, "variable": {"KEY=", "RELEASE_KEY=" + key}} {
		out, err := r.make(t, []string{args[1]}, "release-sign", args[0])
		if err != nil || strings.Contains(out, "PRIVATE") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		if out, err := r.make(t, nil, "release-verify"); err != nil {
			t.Errorf("%s: verify: %v\n%s", name, err, out)
		}
		if err := os.Remove(filepath.Join(r.dir, "checksums.txt.sig")); err != nil {
			t.Error(err)
		}
	}
}

// TestVerify_RefusesEveryChange changes each file of a release in turn: its first byte, its length, and its existence.
func TestVerify_RefusesEveryChange(t *testing.T) {
	r := finished(t)
	r.sign(t)
	accepted := func(change string) {
		t.Helper()
		if out, err := r.make(t, nil, "release-verify"); err == nil {
			t.Errorf("%s: accepted\n%s", change, out)
		}
	}
	files := content(t, r.dir)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		file, text := filepath.Join(r.dir, name), files[name]
		for change, changed := range map[string]string{"first byte": string(text[0]^1) + text[1:], "half": text[:len(text)/2]} {
			if err := os.WriteFile(file, []byte(changed), 0o644); err != nil {
				t.Fatal(err)
			}
			accepted(name + ", " + change)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		accepted("without " + name)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := r.make(t, nil, "release-verify"); err != nil {
		t.Errorf("with every file restored: %v\n%s", err, out)
	}
	if err := os.WriteFile(filepath.Join(r.dir, "more.sig"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := r.make(t, nil, "release-sign", "KEY="+r.private); err == nil || !strings.Contains(out, "more.sig") {
		t.Errorf("a release with another file was signed: %v\n%s", err, out)
	}
	if err := os.Remove(filepath.Join(r.dir, "more.sig")); err != nil {
		t.Fatal(err)
	}
	_, r.public = newKey(t)
	accepted("another key")
}

// TestPublish_PushesWhatWasSigned runs make publish with programs that record their arguments in place of skopeo and gh.
func TestPublish_PushesWhatWasSigned(t *testing.T) {
	r := finished(t)
	tools, log := t.TempDir(), filepath.Join(r.root, "log")
	for _, name := range []string{"skopeo", "gh"} {
		script := "#!/bin/sh\necho " + name + " \"$@\" >> '" + log + "'\ntest \"$1\" = copy || cat >> '" + log + "'\n"
		if err := os.WriteFile(filepath.Join(tools, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{"PATH=" + tools + ":" + os.Getenv("PATH"), "REGISTRY_USER=robot", "REGISTRY_PASSWORD=secret"}
	if out, err := r.make(t, env, "publish"); err == nil {
		t.Fatalf("a release without a signature was published\n%s", out)
	}
	if did, err := os.ReadFile(log); err == nil {
		t.Fatalf("without a signature it ran\n%s", did)
	}
	for _, c := range []struct{ name, unsigned, notes, signature string }{
		{"signed", "", "One.\n", " checksums.txt.sig"},
		{"unsigned", "yes", "**This release is not signed.**\n\nOne.\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r.sign(t)
			if out, err := r.make(t, env, "publish", "UNSIGNED="+c.unsigned); err != nil || strings.Contains(out, "secret") {
				t.Fatalf("make publish: %v\n%s", err, out)
			}
			did, err := os.ReadFile(log)
			if err := errors.Join(err, os.Remove(log)); err != nil {
				t.Fatal(err)
			}
			want := "skopeo login --username robot --password-stdin registry.example:5000\nsecret" +
				"skopeo copy --all --preserve-digests oci-archive:plimsoll-0.2.0-image.tar docker://registry.example:5000/image:0.2.0\n" +
				"skopeo copy --all --preserve-digests oci-archive:plimsoll-0.2.0-chart.tar docker://registry.example:5000/chart:0.2.0\n" +
				"gh release create v0.2.0 --draft --verify-tag --title v0.2.0 --notes-file - checksums.txt" + c.signature +
				" images.txt notes.md plimsoll-0.2.0-chart.tar plimsoll-0.2.0-image.tar provenance.json\n" + c.notes
			if string(did) != want {
				t.Errorf("it ran\n%s\nwant\n%s", did, want)
			}
		})
	}
}

// TestBuild_TakesTagAsText: a tag and a ref of Git can have any character of the shell.
func TestBuild_TakesTagAsText(t *testing.T) {
	r := finished(t)
	tools := t.TempDir()
	if err := os.WriteFile(filepath.Join(tools, "git"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	const tag, builder = `v1';touch'pwned`, "$(touch${IFS}pwned)`touch${IFS}pwned`"
	out, err := r.make(t, []string{"PATH=" + tools + ":" + os.Getenv("PATH"), "TAG=" + tag, "BUILDER=" + builder}, "release-build", "GO=echo")
	if err != nil || !strings.Contains(out, " -tag "+tag+" ") || !strings.Contains(out, " -builder "+builder+" ") {
		t.Errorf("tag and builder were not passed as they are: %v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(r.root, "pwned")); err == nil {
		t.Error("the name of a tag was run as a command")
	}
}
