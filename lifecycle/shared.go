package lifecycle

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/lifecycle/convert"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// maxShared is the maximum number of shared values of each kind: more names than a cluster has
// nodes. Beyond it sharing starts anew, which costs memory only.
const maxShared = 1 << 18

// Bounds of one shared text and one shared set, in bytes: shared values remain after the end of
// their pods. A larger text or set is stored with its pod alone. The number of tolerations per
// pod is bounded by more than the taints of any cluster.
const (
	maxSharedText  = 512
	maxSharedSet   = 8 << 10
	maxTolerations = 1000
)

// shared stores one copy of the values common to many objects. The pods of a cluster have a few
// dozen sets of tolerations, and the names of its nodes.
type shared struct {
	texts map[string]string
	sets  map[string][]model.Toleration
	key   []byte // of the set to look up, reused to avoid allocation
}

// text returns the first stored copy of the text.
func (s *shared) text(text string) string {
	if text == "" || len(text) > maxSharedText {
		return text
	}
	if known, is := s.texts[text]; is {
		return known
	}
	if s.texts == nil || len(s.texts) >= maxShared {
		s.texts = map[string]string{}
	}
	s.texts[text] = text
	return text
}

// labels returns a node's labels with shared texts.
func (s *shared) labels(l model.Labels) model.Labels {
	for _, text := range [...]*string{&l.Region, &l.Zone, &l.OS.Value, &l.Arch.Value, &l.OldOS.Value, &l.OldArch.Value} {
		*text = s.text(*text)
	}
	return l
}

// tolerations returns a pod's tolerations, shared; nil if it has none.
func (s *shared) tolerations(of []corev1.Toleration) []model.Toleration {
	if len(of) == 0 {
		return nil
	}
	of = of[:min(len(of), maxTolerations)]
	s.key = s.key[:0]
	for i := range of {
		s.key = appendToleration(s.key, &of[i])
	}
	if known, is := s.sets[string(s.key)]; is {
		return known
	}
	if s.sets == nil || len(s.sets) >= maxShared {
		s.sets = map[string][]model.Toleration{}
	}
	set := convert.Tolerations(of)
	if len(s.key) > maxSharedSet {
		s.key = nil
		return set
	}
	s.sets[string(s.key)] = set
	return set
}

// appendToleration appends a unique encoding of a toleration: each text follows its length.
func appendToleration(key []byte, t *corev1.Toleration) []byte {
	for _, text := range [...]string{t.Key, string(t.Operator), t.Value, string(t.Effect)} {
		key = strconv.AppendInt(key, int64(len(text)), 10)
		key = append(key, ':')
		key = append(key, text...)
	}
	if t.TolerationSeconds == nil {
		return append(key, '-')
	}
	key = strconv.AppendInt(key, *t.TolerationSeconds, 10)
	return append(key, ';')
}
