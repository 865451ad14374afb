package cri

import (
	"context"
	"encoding/json"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// SandboxImage returns the image of which the runtime makes sandboxes, as its
// configuration names it; empty where its verbose status has none. containerd up to
// 1.7 and CRI-O have it; containerd from 2.0 on pins the image instead, see
// [Image.Pinned].
func (c *Client) SandboxImage(ctx context.Context) (string, error) {
	a, err := ask(ctx, c, "ask for the status", c.runtime.Status, &runtimeapi.StatusRequest{Verbose: true})
	if err != nil {
		return "", err
	}
	return nameIn(a.GetInfo()["config"], func(v verboseImages) string { return v.SandboxImage }), nil
}

// ImageOfSandbox returns the image that a sandbox was made of, by name or ID; empty
// where the verbose status of the sandbox has none. [ErrNotFound] if there is no such
// sandbox.
func (c *Client) ImageOfSandbox(ctx context.Context, id string) (string, error) {
	a, err := ask(ctx, c, "ask for the status of sandbox "+id, c.runtime.PodSandboxStatus,
		&runtimeapi.PodSandboxStatusRequest{PodSandboxId: id, Verbose: true})
	if err != nil {
		return "", err
	}
	return nameIn(a.GetInfo()["info"], func(v verboseImages) string { return v.Image }), nil
}

// verboseImages are the fields of a verbose status that name images.
type verboseImages struct {
	SandboxImage string `json:"sandboxImage"`
	Image        string `json:"image"`
}

// maxImage bounds an image's name: a registry, a repository, a tag and a digest.
const maxImage = 1024

// nameIn reads a name from a verbose status, whose form every runtime chooses by itself:
// what can not be read is not there.
func nameIn(text string, field func(verboseImages) string) string {
	var v verboseImages
	if json.Unmarshal([]byte(text), &v) != nil || len(field(v)) > maxImage {
		return ""
	}
	return field(v)
}
