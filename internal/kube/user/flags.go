package user

import (
	"maps"
	"slices"

	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// Flags are kubectl's flags of a connection.
type Flags struct {
	kubectl *genericclioptions.ConfigFlags
}

// AddFlags adds the flags of a connection.
func AddFlags(set *pflag.FlagSet) *Flags {
	f := &Flags{genericclioptions.NewConfigFlags(true)}
	f.kubectl.CacheDir = nil // nothing is cached
	f.kubectl.AddFlags(set)
	set.Lookup("namespace").Usage = "`namespace` of a pod that is given by its name alone; empty: that of the context"
	return f
}

// Namespace returns the namespace of the flags, or else of the context. Returns an error if the kubeconfig cannot be
// used.
func (f *Flags) Namespace() (string, error) {
	namespace, _, err := f.kubectl.ToRawKubeConfigLoader().Namespace()
	return namespace, err
}

// Contexts returns the names of the kubeconfig's contexts, sorted. Returns an error if the kubeconfig
// cannot be read.
func (f *Flags) Contexts() ([]string, error) {
	loaded, err := f.kubectl.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(loaded.Contexts)), nil
}
