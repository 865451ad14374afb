package main

import (
	"context"
	"errors"
)

func runTests(ctx context.Context, o *options) (int, error) { return 1, errors.New("soon") }
