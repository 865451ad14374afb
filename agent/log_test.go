package agent

import (
	"bytes"
	"log/slog"
	"strings"
)

// logLines is a log for assertions.
type logLines struct{ bytes.Buffer }

func (l *logLines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(&l.Buffer, nil)) }

// contain reports whether one line contains all of the texts.
func (l *logLines) contain(texts ...string) bool {
line:
	for line := range strings.Lines(l.String()) {
		for _, text := range texts {
			if !strings.Contains(line, text) {
				continue line
			}
		}
		return true
	}
	return false
}
