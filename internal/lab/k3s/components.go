package main

import (
	"context"
	"maps"
	"net/http"
	"os"
	"slices"

	kine "github.com/k3s-io/kine/pkg/app"
	"github.com/spf13/cobra"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/compatibility"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectlcmd "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/lab/server"
)

// components are the programs that "k3s server" starts, each as a process of
// its own: linking them into one file costs each start 0.1 s and saves four
// builds, and a process of its own keeps each one's global state apart.
var components = map[string]func(args []string) error{
	"kine":                    func(args []string) error { return kine.New().Run(append([]string{"kine"}, args...)) },
	"kube-apiserver":          runAPIServer,
	"kube-controller-manager": command(controllermanager.NewControllerManagerCommand),
	"kube-scheduler":          command(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	"kubelet":                 command(func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }),
	"kube-proxy":              command(proxy.NewProxyCommand),
}

func componentNames() []string { return slices.Sorted(maps.Keys(components)) }

// command runs a Kubernetes program with these arguments; the program prints
// its own error.
func command(build func() *cobra.Command) func([]string) error {
	return func(args []string) error {
		cmd := build()
		cmd.SetArgs(args)
		os.Exit(cli.Run(cmd))
		return nil
	}
}

func kubectl(args []string) error {
	os.Args = append([]string{"kubectl"}, args...)
	if err := cli.RunNoErrOutput(kubectlcmd.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err)
	}
	return nil
}

// runAPIServer is kube-apiserver with the paths that k3s's supervisor answers
// on the same port: /ping and /cacerts, without asking who calls, and where
// agents join. They sit before the API server's own handlers, so they cost no
// further hop.
func runAPIServer(args []string) error {
	var joining string
	opts := options.NewServerRunOptions()
	cmd := &cobra.Command{
		Use:          "kube-apiserver",
		SilenceUsage: true,
		RunE: func(*cobra.Command, []string) error {
			supervisor, err := server.NewSupervisor(joining)
			if err != nil {
				return err
			}
			return serveAPI(opts, supervisor)
		},
	}
	for _, flags := range opts.Flags().FlagSets {
		cmd.Flags().AddFlagSet(flags)
	}
	cmd.Flags().StringVar(&joining, "join-file", "", "file with what agents join by")
	cmd.SetArgs(args)
	os.Exit(cli.Run(cmd))
	return nil
}

// serveAPI is kube-apiserver's own run function with the outermost handler
// wrapped.
func serveAPI(opts *options.ServerRunOptions, supervisor *server.Supervisor) error {
	ctx := genericapiserver.SetupSignalContext()
	registry := opts.GenericServerRunOptions.ComponentGlobalsRegistry
	if err := registry.Set(); err != nil {
		return err
	}
	if err := logsapi.ValidateAndApply(opts.Logs, registry.FeatureGateFor(compatibility.DefaultKubeComponent)); err != nil {
		return err
	}
	completed, err := opts.Complete(ctx)
	if err != nil {
		return err
	}
	for _, err := range completed.Validate() {
		return err
	}
	config, err := apiserver.NewConfig(completed)
	if err != nil {
		return err
	}
	generic := &config.Aggregator.GenericConfig.Config
	build := generic.BuildHandlerChainFunc
	generic.BuildHandlerChainFunc = func(api http.Handler, c *genericapiserver.Config) http.Handler {
		return supervisor.Handler(build(api, c))
	}
	ready, err := config.Complete()
	if err != nil {
		return err
	}
	chain, err := apiserver.CreateServerChain(ready)
	if err != nil {
		return err
	}
	prepared, err := chain.PrepareRun()
	if err != nil {
		return err
	}
	return prepared.Run(ctx)
}
