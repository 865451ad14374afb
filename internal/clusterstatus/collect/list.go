package collect

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"plimsoll.dev/plimsoll/internal/kube/api"
)

// Bounds of a list. A page of Nodes has about 10 MB.
const (
	perPage  = 1000
	maxPages = 200
)

// objects is a page of a list.
type objects interface {
	runtime.Object
	metav1.ListInterface
}

// each lists the objects of one kind in pages, and calls add with each page. Returns an error if a page
// cannot be read, or is none.
func each[L objects](ctx context.Context, what string, from api.Lister[L], o metav1.ListOptions, add func(L)) error {
	o.Limit = perPage
	for range maxPages {
		page, err := from.List(ctx, o)
		switch {
		case apierrors.IsForbidden(err):
			return fmt.Errorf("list %s: %w: your account needs the right to list them", what, err)
		case err != nil:
			return fmt.Errorf("list %s: %w", what, err)
		case page.GetResourceVersion() == "": // such as the page of a proxy, which decodes as an empty list
			return fmt.Errorf("list %s: %w: check the address of the API server", what, errNoList)
		}
		add(page)
		if o.Continue = page.GetContinue(); o.Continue == "" {
			return nil
		}
	}
	return fmt.Errorf("list %s: there are more than %d: select some of them", what, perPage*maxPages)
}

var errNoList = errors.New("the answer is no list of the API server")
