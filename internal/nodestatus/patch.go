package nodestatus

import (
	"encoding/json"
	"fmt"
)

// statusPatch returns the draft as a strategic merge patch of a Node's status: conditions that it
// does not name stay unchanged.
func (d *draft) statusPatch() ([]byte, error) {
	list := make([]any, 0, len(d.set)+len(d.remove))
	for i := range d.set {
		list = append(list, &d.set[i])
	}
	for _, kind := range d.remove {
		list = append(list, map[string]any{"$patch": "delete", "type": kind})
	}
	data, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": list}})
	if err != nil {
		return nil, fmt.Errorf("encode conditions: %w", err)
	}
	return data, nil
}
