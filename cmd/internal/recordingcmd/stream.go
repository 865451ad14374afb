package recordingcmd

import (
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// Patience is the time in which a client reads what a command in the pod of an agent writes.
const Patience = 30 * time.Second

// ErrNoReader is the error of an output that nothing reads.
var ErrNoReader = errors.New("the output is not read")

// PatientWriter writes to an output, and gives up after a time: a client that is gone may leave a full pipe. After an
// error the output may still be written to.
type PatientWriter struct {
	Out io.Writer
	For time.Duration
}

// Write implements io.Writer. Returns ErrNoReader after the time.
func (w PatientWriter) Write(b []byte) (int, error) {
	type result struct {
		n   int
		err error
	}
	done := make(chan result, 1)
	go func() { n, err := w.Out.Write(b); done <- result{n, err} }()
	late := time.NewTimer(w.For)
	defer late.Stop()
	select {
	case r := <-done:
		return r.n, r.err
	case <-late.C:
		return 0, ErrNoReader
	}
}

// IsTerminal reports whether an input or output is a terminal.
func IsTerminal(stream any) bool {
	f, is := stream.(*os.File)
	return is && term.IsTerminal(int(f.Fd()))
}
