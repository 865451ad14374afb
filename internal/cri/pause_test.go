package cri

import (
	"errors"
	"strings"
	"testing"
)

const pause = "registry.k8s.io/pause:3.10"

// Verbose statuses in the formats of the runtimes.
func TestSandboxImage_ParsesVerboseStatus(t *testing.T) {
	for name, c := range map[string]struct {
		config, info  string
		sandboxes, of string
	}{
		"containerd 1.7": {`{"containerd":{"snapshotter":"overlayfs"},"sandboxImage":"` + pause + `","statsCollectPeriod":10}`,
			`{"pid":7,"processStatus":"running","image":"` + pause + `","snapshotter":"overlayfs"}`, pause, pause},
		"containerd 2": {`{"containerd":{"defaultRuntimeName":"runc"},"rootDir":"/x"}`,
			`{"pid":7,"image":"sha256:0184c1613d92","runtimeSpec":{}}`, "", "sha256:0184c1613d92"},
		"CRI-O":               {`{"sandboxImage":"` + pause + `"}`, `{"image":"` + pause + `","pid":7}`, pause, pause},
		"CRI-O without infra": {`{"sandboxImage":"` + pause + `"}`, `{"runtimeSpec":{}}`, pause, ""},
		"unknown format":      {`{"sandboxImage":["x"]}`, `"info"`, "", ""},
		"no verbose status":   {"", "", "", ""},
		"name too long":       {`{"sandboxImage":"` + strings.Repeat("x", maxImage+1) + `"}`, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			client := (&fake{info: func(sandbox string) map[string]string {
				if sandbox == "" {
					return map[string]string{"config": c.config, "golang": `"go1.26"`}
				}
				return map[string]string{"info": c.info}
			}}).open(t)
			if got, err := client.SandboxImage(t.Context()); err != nil || got != c.sandboxes {
				t.Errorf("SandboxImage: got %q, error %v, want %q", got, err, c.sandboxes)
			}
			if got, err := client.ImageOfSandbox(t.Context(), "s"); err != nil || got != c.of {
				t.Errorf("ImageOfSandbox: got %q, error %v, want %q", got, err, c.of)
			}
		})
	}
	if _, err := (&fake{}).open(t).SandboxImage(t.Context()); !errors.Is(err, ErrUnimplemented) {
		t.Errorf("runtime without the call: got error %v, want ErrUnimplemented", err)
	}
}
