package gc

import (
	"cmp"
	"math/bits"
	"slices"
	"time"

	"plimsoll.dev/plimsoll/internal/cri"
)

// sighting is the time at which an image was first seen, and last seen in use; used is zero if it
// never was.
type sighting struct{ first, used time.Time }

// since returns the start of the time in which the image was unused.
func (s sighting) since() time.Time {
	if s.used.After(s.first) {
		return s.used
	}
	return s.first
}

// sightings are the sightings of images, by their ID.
type sightings map[string]sighting

// note records a listing: new images, those in use, those that are gone.
func (s sightings) note(images []cri.Image, used names, now time.Time) {
	there := make(map[string]bool, len(images))
	for i := range images {
		id := images[i].ID
		there[id] = true
		seen, known := s[id]
		if !known {
			seen.first = now
		}
		if used.contains(&images[i]) {
			seen.used = now
		}
		s[id] = seen
	}
	for id := range s {
		if !there[id] {
			delete(s, id) // pulled again, it is a new image
		}
	}
}

// names are the references of containers to images: IDs, tags, digests.
type names map[string]bool

func (n names) add(more ...string) {
	for _, name := range more {
		if name != "" {
			n[name] = true
		}
	}
}

// contains reports whether the image has one of the names.
func (n names) contains(img *cri.Image) bool {
	called := func(name string) bool { return n[name] }
	return n[img.ID] || slices.ContainsFunc(img.Tags, called) || slices.ContainsFunc(img.Digests, called)
}

// unusedImages returns the images that may be removed, in this order: never used ones and those
// last used longest ago, then first seen longest ago. Then the larger one, because fewer have to be
// pulled again.
func unusedImages(images []cri.Image, used names, seen sightings, ttl time.Duration, now time.Time) []cri.Image {
	var unused []cri.Image
	for _, img := range images {
		s, known := seen[img.ID]
		if known && !img.Pinned && !used.contains(&img) && now.Sub(s.first) >= ttl {
			unused = append(unused, img)
		}
	}
	slices.SortFunc(unused, func(a, b cri.Image) int {
		x, y := seen[a.ID], seen[b.ID]
		return cmp.Or(x.used.Compare(y.used), x.first.Compare(y.first), cmp.Compare(b.Size, a.Size), cmp.Compare(a.ID, b.ID))
	})
	return unused
}

// splitByAge separates the images unused for longer than age; none if age is 0.
func splitByAge(unused []cri.Image, seen sightings, age time.Duration, now time.Time) (old, rest []cri.Image) {
	for _, img := range unused {
		if age > 0 && now.Sub(seen[img.ID].since()) > age {
			old = append(old, img)
		} else {
			rest = append(rest, img)
		}
	}
	return old, rest
}

// usedPercent returns 100 minus the available percentage rounded down, like the kubelet. If more is
// available than the capacity, nothing is used.
func usedPercent(available, capacity int64) int {
	return 100 - int(mulDiv(uint64(min(available, capacity)), 100, uint64(capacity)))
}

// share returns that percentage of capacity, rounded down.
func share(capacity int64, percent int) int64 {
	return int64(mulDiv(uint64(capacity), uint64(percent), 100))
}

// mulDiv returns a × b / c without overflow of the product; the result must fit.
func mulDiv(a, b, c uint64) uint64 {
	high, low := bits.Mul64(a, b)
	quotient, _ := bits.Div64(high, low, c)
	return quotient
}
