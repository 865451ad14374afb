package reflector

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// maxObject bounds one object of a list, in bytes. An API server accepts requests of
// 3 MiB.
const maxObject = 16 << 20

// ErrTooLarge is the error for a list with an object of more than 16 MiB.
var ErrTooLarge = errors.New("an object of the list is larger than 16 MiB")

// protobufMark begins a response in protobuf; any other response is read as JSON.
const protobufMark = "k8s\x00"

// Each reads the response to a list request while it arrives, and passes each object to take, which
// may retain it. Only one object at a time is in memory, whatever the size of the list and whether
// the server pages it. The objects have the type of the example. Each returns the metadata of the
// list.
//
// Returns the first error of the request, of take, or of a response without such a list. Objects
// that were passed before an error belong to no complete list.
func Each(ctx context.Context, request *rest.Request, example runtime.Object, take func(runtime.Object) error) (metav1.ListMeta, error) {
	kind := reflect.TypeOf(example).Elem()
	body, err := request.Stream(ctx)
	if err != nil {
		return metav1.ListMeta{}, err
	}
	defer body.Close()
	l := &listing{
		from: bufio.NewReaderSize(body, 32<<10), kind: kind.Name() + "List", take: take,
		new: func() (object, bool) {
			o, is := reflect.New(kind).Interface().(object)
			return o, is
		},
	}
	mark, err := l.from.Peek(len(protobufMark))
	switch {
	case err != nil && !errors.Is(err, io.EOF):
	case string(mark) == protobufMark:
		err = l.protobuf()
	default:
		err = l.json()
	}
	if err != nil {
		return metav1.ListMeta{}, fmt.Errorf("read a %s: %w", l.kind, err)
	}
	return l.about, nil
}

// object is decodable from either form of a list.
type object interface {
	runtime.Object
	Unmarshal([]byte) error
}

// listing is the state of reading a list.
type listing struct {
	from  *bufio.Reader
	kind  string // of the list
	new   func() (object, bool)
	take  func(runtime.Object) error
	about metav1.ListMeta
}

// is returns an error unless the response has the kind of the list.
func (l *listing) is(kind string) error {
	if kind != l.kind {
		return fmt.Errorf("the answer is of the kind %.100q", kind)
	}
	return nil
}

// one decodes an object and passes it to take.
func (l *listing) one(decode func(object) error) error {
	o, is := l.new()
	if !is {
		return fmt.Errorf("%T can not be decoded from protobuf", o)
	}
	if err := decode(o); err != nil {
		return err
	}
	return l.take(o)
}

// json reads the list as JSON: an object with the fields kind, metadata and items.
func (l *listing) json() error {
	bounded := &bounded{from: l.from}
	bounded.renew()
	d := json.NewDecoder(bounded)
	if err := open(d, '{'); err != nil {
		return err
	}
	kind := ""
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		switch key {
		case "kind":
			err = d.Decode(&kind)
		case "metadata":
			err = d.Decode(&l.about)
		case "items":
			if kind != "" { // otherwise it may follow
				err = l.is(kind)
			}
			if err == nil {
				err = l.array(d, bounded)
			}
		default:
			err = d.Decode(new(json.RawMessage))
		}
		if err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return err
	}
	if kind == "" { // an empty object: it has no version either
		return nil
	}
	return l.is(kind)
}

func open(d *json.Decoder, with json.Delim) error {
	token, err := d.Token()
	if err == nil && token != with {
		err = fmt.Errorf("it holds %.100v instead of %v", token, with)
	}
	return err
}

// array reads the items, which may be null if there are none.
func (l *listing) array(d *json.Decoder, bounded *bounded) error {
	token, err := d.Token()
	if err != nil || token == nil {
		return err
	}
	if token != json.Delim('[') {
		return fmt.Errorf("its items are %.100v", token)
	}
	for d.More() {
		bounded.renew()
		if err := l.one(func(o object) error { return d.Decode(o) }); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

// bounded returns [ErrTooLarge] after more bytes than the bound of one object.
type bounded struct {
	from io.Reader
	left int
}

func (b *bounded) renew() { b.left = maxObject }

func (b *bounded) Read(into []byte) (int, error) {
	if b.left <= 0 {
		return 0, ErrTooLarge
	}
	n, err := b.from.Read(into[:min(len(into), b.left)])
	b.left -= n
	return n, err
}
