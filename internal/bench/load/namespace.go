package load

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
)

// The client pod's specification sets these from the Kubernetes downward API
// (status.podIP and status.hostIP).
const (
	PodIPVariable  = "TESTBED_POD_IP"
	HostIPVariable = "TESTBED_HOST_IP"
)

// checkNamespace returns an error unless the process is in the network
// namespace of a pod. PID 1 of a pod is the pod's own, so its namespace says
// nothing; the addresses do: Kubernetes tells the pod's address and the
// node's, and only inside the pod's namespace does the first one exist without
// the second.
func checkNamespace() error {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return fmt.Errorf("list the addresses of this network namespace: %w", err)
	}
	here := map[netip.Addr]bool{}
	for _, address := range addresses {
		if prefix, err := netip.ParsePrefix(address.String()); err == nil {
			here[prefix.Addr().Unmap()] = true
		}
	}
	return insidePod(os.Getenv(PodIPVariable), os.Getenv(HostIPVariable), here)
}

// insidePod decides from the pod's address, the node's address and the
// addresses of this network namespace.
func insidePod(podIP, hostIP string, here map[netip.Addr]bool) error {
	const refusal = "the load generator runs in the client pod of a benchmark only, so that its traffic stays inside the testbed: "
	pod, errPod := netip.ParseAddr(podIP)
	node, errNode := netip.ParseAddr(hostIP)
	switch {
	case errPod != nil || errNode != nil:
		return errors.New(refusal + PodIPVariable + " and " + HostIPVariable + " are not set by a pod's specification")
	case pod == node || here[node.Unmap()]:
		return fmt.Errorf(refusal+"this is the network namespace of the node %s", node)
	case !here[pod.Unmap()]:
		return fmt.Errorf(refusal+"the pod's address %s does not exist in this network namespace", pod)
	}
	return nil
}
