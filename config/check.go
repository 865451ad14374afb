package config

import "plimsoll.dev/plimsoll/internal/strictyaml"

// A Checked is what a configuration file holds.
type Checked struct {
	Kind       string      // empty: of no kind that there is
	Agent      *Agent      // nil: of another kind
	Controller *Controller // likewise
}

// Check reads a configuration file of any kind, as the program that it is for reads
// it at its start. Returns an error of type [strictyaml.Faults] with all faults if it is
// not valid.
func Check(data []byte) (Checked, error) {
	switch kindIn(data) {
	case AgentKind:
		c, err := ParseFile(data)
		return Checked{Kind: AgentKind, Agent: c}, err
	case ControllerKind:
		c, err := ParseControllerFile(data)
		return Checked{Kind: ControllerKind, Controller: c}, err
	}
	var faults strictyaml.Faults
	doc := strictyaml.Parse(data, &faults)
	if len(faults) == 0 {
		if v := doc.Object(append([]string{"apiVersion", "kind"}, append(Fields(), ControllerFields()...)...)...).Need("kind"); v.Present() {
			v.Fault("must be %s or %s", AgentKind, ControllerKind)
		}
	}
	return Checked{}, faults.Err()
}

// kindIn returns the kind that a file names; empty if it can not be read.
func kindIn(data []byte) string {
	var faults strictyaml.Faults
	doc := strictyaml.Parse(data, &faults)
	if len(faults) > 0 {
		return ""
	}
	return doc.Quiet(&strictyaml.Faults{}).Object().Get("kind").Text()
}
