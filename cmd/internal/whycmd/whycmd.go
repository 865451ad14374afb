// Package whycmd is the command why of both programs: its arguments, flags and help. The programs differ in their
// connection to the cluster and in their output formats.
package whycmd

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"plimsoll.dev/plimsoll/internal/evictionlog"
	"plimsoll.dev/plimsoll/internal/why/lookup"
)

// Program is a program with the command.
type Program struct {
	Name    string // as users type it
	Version string
	// Namespace returns the namespace of a pod that is given by its name alone. nil: such a pod is invalid.
	Namespace func() (string, error)
	// Run connects to the cluster, and finds and writes what the request selects.
	Run func(*cobra.Command, *lookup.Request) error
	// Invalid marks an error of flags or arguments.
	Invalid func(error) error
}

// Command returns the command of a program.
func Command(p Program) *cobra.Command {
	r := &lookup.Request{}
	pod := "NAMESPACE/NAME"
	if p.Namespace != nil {
		pod = "[NAMESPACE/]NAME"
	}
	cmd := &cobra.Command{
		Use:   "why [pod " + pod + "|node NODE]",
		Short: "Explain evictions from their records in the cluster",
		Long: `Reads the records of evictions, which outlive events, pods and agents. For a pod it
prints the threshold and the observation, the ranking at that time, why this pod was
evicted and not the next one, what the kubelet would have done, and which request,
usage or priority would have saved it. For a node, and without arguments for all nodes, it
prints one line for each eviction, the latest first.

The records of the pod's node are read first, if the pod still exists. If they have no
eviction of it, or the pod is gone, those of all nodes are read. If none has an eviction
of it and the pod exists, the exit status is 1, and it prints where the pod stands for
each signal, as far as the cluster knows it without the node's agent.

Exit status: 0 found, 1 no such eviction is recorded, or the records cannot be read;
2 invalid flags or arguments.`,
		Example: "  # Why a pod was evicted, or where it stands\n  " + p.Name + " why pod shop/web-7d4b9c\n\n" +
			"  # The evictions of a node, the latest first\n  " + p.Name + " why node node-1\n\n" +
			"  # The latest evictions in the cluster, and more of them for programs\n  " + p.Name + " why\n  " + p.Name + " why --last 500 -o json",
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := p.selectEvictions(r, args); err != nil {
			return err
		}
		r.Program = p.Name + " " + p.Version
		return p.Run(cmd, r)
	}
	f := cmd.Flags()
	f.StringVar(&r.Node, "node", "", "`node` of the pod; empty: the present node of the pod, else all nodes are searched")
	f.BoolVar(&r.AllNodes, "all-nodes", false, "search all nodes, for evictions of earlier pods of the same name too")
	f.IntVar(&r.Last, "last", 0, fmt.Sprintf("print the last `N` evictions only; 0: all of the pod or node, or without arguments %d", latest))
	f.StringVar(&r.Namespace, "eviction-record-namespace", evictionlog.Namespace, "`namespace` of the records")
	return cmd
}

// latest is the number of evictions that are printed without arguments.
const latest = 20

// selectEvictions sets what the arguments select. Returns an error of [Program.Invalid] if they and the flags are
// invalid, and the error of Namespace.
func (p *Program) selectEvictions(r *lookup.Request, args []string) error {
	if r.Last < 0 {
		return p.Invalid(fmt.Errorf("--last: %d: must be at least 0", r.Last))
	}
	if r.AllNodes && r.Node != "" {
		return p.Invalid(fmt.Errorf("--all-nodes: must not be given with --node, which is %q", r.Node))
	}
	if len(args) == 1 { // kubectl's form of a name, such as node/n
		if kind, name, both := strings.Cut(args[0], "/"); both && (kind == "pod" || kind == "node") {
			args = []string{kind, name}
		}
	}
	switch {
	case len(args) == 0:
		r.Last = cmp.Or(r.Last, latest)
		return nil
	case len(args) == 2 && args[0] == "pod":
		pod, err := p.pod(args[1])
		r.Pod = pod
		return err
	case len(args) == 2 && args[0] == "node" && r.Node == "" && args[1] != "" && !strings.Contains(args[1], "/"):
		r.Node = args[1]
		return nil
	}
	return p.Invalid(fmt.Errorf("%s why: %q: must be pod NAMESPACE/NAME or node NODE, or nothing for the latest evictions", p.Name, strings.Join(args, " ")))
}

// pod returns the namespace and the name of a pod.
func (p *Program) pod(given string) (string, error) {
	namespace, name, both := strings.Cut(given, "/")
	if !both && p.Namespace != nil {
		var err error
		if namespace, err = p.Namespace(); err != nil {
			return "", fmt.Errorf("find the namespace of pod %s: %w", given, err)
		}
		name = given
	}
	if namespace == "" || name == "" || strings.Contains(name, "/") {
		return "", p.Invalid(fmt.Errorf("%s why pod: %q: must be NAMESPACE/NAME", p.Name, given))
	}
	return namespace + "/" + name, nil
}
