// Package image tests what make image writes, with the real binary: twice, from
// two places, it is the same to the byte, and the real containerd takes it and
// runs it as the user it is meant for. How an image is put together is tested
// where that is done, in deploy/image.
package image
