package config

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// A setter puts the text of a value into a configuration, or says what is wrong
// with it and changes nothing.
type setter[C any] = func(c *C, text string) (problem string)

func str[C any](of func(*C) *string) setter[C] {
	return func(c *C, text string) string { *of(c) = text; return "" }
}

func oneOf[C any](of func(*C) *string, choices ...string) setter[C] {
	return func(c *C, text string) string {
		if !slices.Contains(choices, text) {
			return "must be one of " + strings.Join(choices, ", ")
		}
		*of(c) = text
		return ""
	}
}

func number[C any](of func(*C) *int64) setter[C] {
	return func(c *C, text string) string {
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return "must be a whole number"
		}
		*of(c) = n
		return ""
	}
}

func duration[C any](of func(*C) *time.Duration) setter[C] {
	return func(c *C, text string) string {
		d, err := time.ParseDuration(text)
		if err != nil {
			return "must be a duration with a unit, such as 90s or 1m30s"
		}
		*of(c) = d
		return ""
	}
}
