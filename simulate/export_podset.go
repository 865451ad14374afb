package simulate

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
)

// podSet is a set of pods by namespace/name, in the order in which they were added. No operation searches all of them: a
// recording of another origin can have 100,000 pods, each of which takes the place of another one.
type podSet struct {
	pods map[string]podText
	next int
}

// podText is a pod, as it is written.
type podText struct {
	order int
	key   string // namespace/name
	text  json.RawMessage
}

// put adds a pod behind all others. An earlier pod of that name is removed.
func (s *podSet) put(key string, text json.RawMessage) {
	if s.pods == nil {
		s.pods = map[string]podText{}
	}
	s.pods[key] = podText{s.next, key, text}
	s.next++
}

// drop removes the pod of a name, if there is one.
func (s *podSet) drop(key string) { delete(s.pods, key) }

// sorted returns the pods in their order.
func (s *podSet) sorted() []podText {
	return slices.SortedFunc(maps.Values(s.pods), func(a, b podText) int { return cmp.Compare(a.order, b.order) })
}

// texts returns the pods as they are written.
func (s *podSet) texts() (all []json.RawMessage) {
	for _, p := range s.sorted() {
		all = append(all, p.text)
	}
	return all
}

// keys returns the names of the pods.
func (s *podSet) keys() (all []string) {
	for _, p := range s.sorted() {
		all = append(all, p.key)
	}
	return all
}
