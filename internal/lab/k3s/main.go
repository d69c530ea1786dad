package main

import (
	"fmt"

	kine "github.com/k3s-io/kine/pkg/app"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
	kubectl "k8s.io/kubectl/pkg/cmd"
)

func main() {
	fmt.Println(kine.New(), apiserver.NewAPIServerCommand, controllermanager.NewControllerManagerCommand, proxy.NewProxyCommand, scheduler.NewSchedulerCommand, kubelet.NewKubeletCommand, kubectl.NewDefaultKubectlCommand)
}
