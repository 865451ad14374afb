// Package markup has what tests of pictures have in common: they read the elements of a picture. It knows no
// picture.
package markup

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strconv"
	"strings"
)

// T is the part of testing.T that is needed here.
type T interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Element is a part of a picture.
type Element struct {
	Name string
	Attr map[string]string
	Text string
}

// Number returns an attribute as a number. It ends the test if that is none.
func (e *Element) Number(t T, name string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(e.Attr[name], 64)
	if err != nil {
		t.Fatalf("%s of %+v: %v", name, e, err)
	}
	return n
}

// Elements returns the elements of a picture in order. It ends the test if the picture is malformed.
func Elements(t T, svg []byte) (list []Element) {
	t.Helper()
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatalf("malformed: %v\n%s", err, svg)
		}
		switch found := token.(type) {
		case xml.StartElement:
			e := Element{Name: found.Name.Local, Attr: map[string]string{}}
			for _, a := range found.Attr {
				e.Attr[a.Name.Local] = a.Value
			}
			list = append(list, e)
		case xml.CharData:
			if len(list) > 0 {
				list[len(list)-1].Text += strings.TrimSpace(string(found))
			}
		}
	}
}
