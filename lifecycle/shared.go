package lifecycle

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/lifecycle/convert"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// maxShared bounds what is kept of each kind to be shared: more names than a
// cluster has nodes. Beyond it sharing begins anew, which costs memory only.
const maxShared = 1 << 18

// Bounds of one text and one set that are shared, in bytes: whatever is shared stays
// when its pods are gone. A text or set beyond them is kept with its pod alone. Of
// the tolerations of a pod as many count as no cluster has taints.
const (
	maxSharedText  = 512
	maxSharedSet   = 8 << 10
	maxTolerations = 1000
)

// shared keeps one copy of what many objects have in common: the pods of a
// cluster have a few dozen sets of tolerations, and the names of its nodes.
type shared struct {
	texts map[string]string
	sets  map[string][]model.Toleration
	key   []byte // of the set that is looked for, to allocate nothing
}

// text is s, in the copy that was seen first.
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

// labels are those of a node, in texts that are shared.
func (s *shared) labels(l model.Labels) model.Labels {
	for _, text := range [...]*string{&l.Region, &l.Zone, &l.OS.Value, &l.Arch.Value, &l.OldOS.Value, &l.OldArch.Value} {
		*text = s.text(*text)
	}
	return l
}

// tolerations are those of a pod, nil if it has none.
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

// appendToleration writes a toleration so that two that differ are written
// differently: each text goes after its length.
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
