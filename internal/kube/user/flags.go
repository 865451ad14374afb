package user

import (
	"maps"
	"slices"

	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"
)

// Flags are the flags of a connection.
type Flags struct {
	kubeconfig string
	overrides  clientcmd.ConfigOverrides
}

// AddFlags adds the flags of a connection. namespace is the default of --namespace.
func AddFlags(set *pflag.FlagSet, namespace string) *Flags {
	f := &Flags{}
	set.StringVar(&f.kubeconfig, "kubeconfig", "", "`path` of the kubeconfig; empty: the files of KUBECONFIG, ~/.kube/config, or the service account of the pod")
	names := clientcmd.RecommendedConfigOverrideFlags("")
	names.AuthOverrideFlags.Username.LongName, names.AuthOverrideFlags.Password.LongName = "", "" // Kubernetes 1.19 removed them
	names.ContextOverrideFlags.Namespace.Default, names.Timeout.Default, names.ClusterOverrideFlags.APIServer.ShortName = namespace, "1m", "s"
	auth, cluster, context := &names.AuthOverrideFlags, &names.ClusterOverrideFlags, &names.ContextOverrideFlags
	for flag, usage := range map[*clientcmd.FlagInfo]string{
		&names.CurrentContext:          "`name` of the kubeconfig's context; empty: the current one",
		&names.Timeout:                 "maximum `duration` of one request; 0: no limit",
		&context.ClusterName:           "`name` of the kubeconfig's cluster; empty: that of the context",
		&context.AuthInfoName:          "`name` of the kubeconfig's user; empty: that of the context",
		&context.Namespace:             "`namespace` of the agents, whatever the namespace of the context",
		&cluster.APIServer:             "`address` of the API server; empty: that of the kubeconfig",
		&cluster.CertificateAuthority:  "`path` of the certificate of the API server's authority",
		&cluster.InsecureSkipTLSVerify: "accept any certificate of the API server; the connection can then be intercepted",
		&cluster.TLSServerName:         "`name` that the API server's certificate must have; empty: its host name",
		&cluster.ProxyURL:              "`URL` of a proxy to the API server",
		&cluster.DisableCompression:    "request responses without compression",
		&auth.ClientCertificate:        "`path` of the client's certificate",
		&auth.ClientKey:                "`path` of the client's key",
		&auth.Token:                    "bearer `token` for the API server",
		&auth.Impersonate:              "`user` or service account to act as",
		&auth.ImpersonateUID:           "`UID` to act as",
		&auth.ImpersonateGroups:        "`group` to act as; may be repeated",
	} {
		flag.Description = usage
	}
	clientcmd.BindOverrideFlags(&f.overrides, set, names)
	return f
}

// Contexts returns the names of the kubeconfig's contexts, sorted. Returns an error if the kubeconfig
// cannot be read.
func (f *Flags) Contexts() ([]string, error) {
	loaded, err := f.rules().Load()
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(loaded.Contexts)), nil
}

func (f *Flags) rules() *clientcmd.ClientConfigLoadingRules {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath, rules.WarnIfAllMissing = f.kubeconfig, false // the error names what to do
	return rules
}
