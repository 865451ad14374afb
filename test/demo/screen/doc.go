// Package screen writes the demo's text: the node and its pods, a bar of used
// memory, the agent's decisions, the outcome. It reads no clock and no cgroup;
// the same calls write the same text.
//
// Lines have at most Columns columns, amounts of memory one notation (243Mi),
// and colours are optional. The words of the agent's decision log are
// translated in decision.go and nowhere else.
package screen
