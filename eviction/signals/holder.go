package signals

// A Consumer is somebody who holds memory of the node, as a person would look for
// it: a cgroup beside those of pods, or what the kernel keeps.
type Consumer struct {
	Name  string `json:"name"`
	Bytes Bytes  `json:"bytes"`
}
