// Package svg draws pictures as SVG. It escapes every text in one way and gives a picture a title and a
// description for screen readers. It knows the content of no picture.
package svg
