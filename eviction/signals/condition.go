package signals

// Condition is a pressure condition of a node, by its core/v1 type.
type Condition uint8

// The pressure conditions, in the order of their names.
const (
	DiskPressure Condition = iota
	MemoryPressure
	PIDPressure

	// ConditionCount is the number of conditions.
	ConditionCount = int(iota)
)

var conditionNames = [ConditionCount]string{"DiskPressure", "MemoryPressure", "PIDPressure"}

func (c Condition) String() string { return conditionNames[c] }

// ConditionSet is a set of conditions that are True. The zero value is empty.
type ConditionSet uint8

// Add adds c to the set.
func (set *ConditionSet) Add(c Condition) { *set |= 1 << c }

// Has reports whether c is in the set.
func (set ConditionSet) Has(c Condition) bool { return set&(1<<c) != 0 }

// Names returns the names of the set's conditions, sorted; never nil.
func (set ConditionSet) Names() []string {
	names := []string{}
	for c := range Condition(ConditionCount) {
		if set.Has(c) {
			names = append(names, c.String())
		}
	}
	return names
}
