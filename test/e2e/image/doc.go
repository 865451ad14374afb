// Package image tests the output of make image with the real binary. Built twice, in two
// places, it is identical to the byte. The real containerd accepts it and runs it as the
// intended user. The construction of images is tested in deploy/internal/image.
package image
