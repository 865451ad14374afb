package cri

import (
	"context"
	"encoding/json"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// SandboxImage returns the image of new sandboxes from the runtime's configuration; empty if its
// verbose status has none. containerd up to 1.7 and CRI-O have it; containerd from 2.0 on pins the
// image instead, see [Image.Pinned]. Returns an error if the call fails.
func (c *Client) SandboxImage(ctx context.Context) (string, error) {
	a, err := ask(ctx, c, "read the status", c.runtime.Status, &runtimeapi.StatusRequest{Verbose: true})
	if err != nil {
		return "", err
	}
	return nameIn(a.GetInfo()["config"], func(v verboseImages) string { return v.SandboxImage }), nil
}

// ImageOfSandbox returns the image of a sandbox, by name or ID; empty if the verbose status of the
// sandbox has none. Returns ErrNotFound if there is no such sandbox.
func (c *Client) ImageOfSandbox(ctx context.Context, id string) (string, error) {
	a, err := ask(ctx, c, "read the status of sandbox "+id, c.runtime.PodSandboxStatus,
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

// nameIn returns a name from a verbose status. Its format depends on the runtime: a name in an
// unknown format counts as absent.
func nameIn(text string, field func(verboseImages) string) string {
	var v verboseImages
	if json.Unmarshal([]byte(text), &v) != nil || len(field(v)) > maxImage {
		return ""
	}
	return field(v)
}
