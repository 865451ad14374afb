package signals

// Consumer is a consumer of the node's memory outside of pods: a cgroup, or a kind of kernel
// memory.
type Consumer struct {
	Name  string `json:"name"`
	Bytes Bytes  `json:"bytes"`
}
