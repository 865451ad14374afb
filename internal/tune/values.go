package tune

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/strictyaml"
)

// DefaultValues are from half of the kubelet's default threshold of memory to more than any guarantee needs.
const (
	DefaultValues = "50Mi..2Gi"
	DefaultSteps  = 12
)

// Values returns the thresholds of a text: values such as 200Mi or 5%, and ranges of bytes such as 50Mi..2Gi,
// separated by commas. A range has a number of steps with equal ratios, whole mebibytes from 1Mi on. Returns an error for
// a range that is not valid.
func Values(text string, steps int) (all []string, err error) {
	for item := range strings.SplitSeq(text, ",") {
		item = strings.TrimSpace(item)
		from, to, isRange := strings.Cut(item, "..")
		switch {
		case item == "":
			continue
		case !isRange:
			all = append(all, item)
			continue
		}
		values, err := stepsOf(from, to, steps)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", item, err)
		}
		all = append(all, values...)
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(value string) bool {
		before := seen[value]
		seen[value] = true
		return before
	}), nil
}

// stepsOf returns the values of a range.
func stepsOf(from, to string, steps int) (values []string, err error) {
	first, err := bytesOf(from)
	if err != nil {
		return nil, err
	}
	last, err := bytesOf(to)
	switch {
	case err != nil:
		return nil, err
	case last < first:
		return nil, fmt.Errorf("a range must end above its begin, such as %s", DefaultValues)
	case steps < 2 || steps > MaxValues:
		return nil, fmt.Errorf("a range has 2 to %d steps, not %d", MaxValues, steps)
	}
	const mebi = 1 << 20
	for i := range steps {
		value := float64(first) * math.Pow(float64(last)/float64(first), float64(i)/float64(steps-1))
		n := signals.Amount(math.Round(value))
		if n >= mebi {
			n = signals.Amount(math.Round(value/mebi)) * mebi
		}
		values = append(values, signals.Format(n, signals.UnitBytes))
	}
	return values, nil
}

// bytesOf returns a number of bytes.
func bytesOf(text string) (int64, error) {
	q, err := strictyaml.ParseQuantity(strings.TrimSpace(text))
	if err != nil || strictyaml.Whole(q) <= 0 || strictyaml.Whole(q) > 1<<60 {
		return 0, fmt.Errorf("%q must be a quantity of bytes above 0, such as 200Mi", strings.TrimSpace(text))
	}
	return strictyaml.Whole(q), nil
}
