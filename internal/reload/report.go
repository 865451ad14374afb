package reload

import (
	"encoding/json"
	"net/http"
	"time"
)

// Status is the state of a [Watch] for metrics.
type Status struct {
	Refused  bool      // the file differs from the configuration in force
	Sum      string    // of the file in force; empty without a file
	Since    time.Time // since when it is in force
	Applied  int       // changes since the start
	Refusals int       // likewise
}

// Status returns the present state.
func (w *Watch[C]) Status() Status {
	s := w.state.Load()
	return Status{Refused: s.refused != nil, Sum: s.sum, Since: s.since, Applied: s.applied, Refusals: s.refuses}
}

// Err returns the refusal of the file, and nil while the file is in force.
func (w *Watch[C]) Err() error {
	if r := w.state.Load().refused; r != nil {
		return r
	}
	return nil
}

// Note describes the configuration in force for /readyz.
func (w *Watch[C]) Note() string {
	s := w.state.Load()
	if s.sum == "" {
		return "there is no file"
	}
	return "in force since " + s.since.UTC().Format(time.RFC3339) + ", sha256 " + s.sum
}

// report is the answer of /configz (docs/reference/endpoints.md).
type report struct {
	Config  json.RawMessage `json:"config"` // in force, with every option
	Flags   []string        `json:"setByFlags"`
	File    string          `json:"file,omitempty"`
	Sum     string          `json:"sha256,omitempty"`
	Since   time.Time       `json:"inForceSince"`
	Changes []string        `json:"changes"` // by the last change of the file
	Refused *Refusal        `json:"refused,omitempty"`
}

// ServeHTTP answers /configz.
func (w *Watch[C]) ServeHTTP(out http.ResponseWriter, _ *http.Request) {
	s := w.state.Load()
	config, err := w.Source.Effective(s.config)
	if err != nil {
		http.Error(out, err.Error(), http.StatusInternalServerError)
		return
	}
	r := report{Config: config, Flags: append([]string{}, w.Source.Overridden()...), File: w.Source.Path(), Sum: s.sum, Since: s.since.UTC(),
		Changes: append([]string{}, texts(s.changes, true)...), Refused: s.refused}
	out.Header().Set("Content-Type", "application/json")
	out.Header().Set("X-Content-Type-Options", "nosniff")
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(r) // a client that has disconnected reads no error
}
