package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// minRepairDelay is how long a condition of pressure lasts before a repair of its node is no fault. The
// condition stays True for the transition period (5 min by default) after the last shortage, so several
// evictions in a row keep it for longer.
const minRepairDelay = 30 * time.Minute

// pressureConditions are the standard conditions of a Node under pressure.
var pressureConditions = []string{"MemoryPressure", "DiskPressure", "PIDPressure"}

// ownConditions is the prefix of the agents' own conditions.
const ownConditions = "plimsoll.dev/"

// earlyRepairs describes the health checks that repair nodes under pressure early.
func earlyRepairs(f *ClusterFacts) string {
	var texts []string
	for _, r := range f.Repairs.Value {
		pressure := slices.Contains(pressureConditions, r.Condition) || strings.HasPrefix(r.Condition, ownConditions)
		if pressure && r.After < minRepairDelay {
			texts = append(texts, fmt.Sprintf("%s repairs a node after %s of %s", r.By, r.After, r.Condition))
		}
	}
	if len(texts) == 0 {
		return ""
	}
	return someOf(texts)
}
