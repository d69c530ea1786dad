package ingress

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// Ports of the ingress's pod.
const (
	PublicPort  = 8080
	PrivatePort = 8081
	// HealthPort answers GET /healthz once all is routed.
	HealthPort = 8082
)

// Command is the agent's command "ingress". It runs in a pod, whose service
// account may read Services, EndpointSlices and KIngresses and write the
// latter's status.
func Command(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("ingress", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	class := flags.String("class", Class, "ingress class")
	public := flags.String("public", "", "address of the node, and the name of the Service of the public port")
	private := flags.String("private", "", "address and name of the Service of the private port")
	if err := flags.Parse(args); err != nil {
		return err
	}
	outside, outsideOK := parseBalancer(*public)
	inside, insideOK := parseBalancer(*private)
	if flags.NArg() > 0 || !outsideOK || !insideOK {
		return errors.New("it takes -public and -private with ADDRESS,SERVICE each, and nothing else beside -class")
	}
	// The other half is for those whom it calls: on two processors, waking a
	// second thread takes from the function more than the ingress gains.
	runtime.GOMAXPROCS(max(1, runtime.GOMAXPROCS(0)/2))
	config, err := rest.InClusterConfig()
	if err != nil {
		return fmt.Errorf("find the cluster that the pod is part of: %w", err)
	}
	config.QPS, config.Burst = 100, 200
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client of the cluster: %w", err)
	}
	return serve(ctx, &controller{client: client, proxy: newProxy(), class: *class, public: outside, private: inside})
}

func parseBalancer(text string) (balancer, bool) {
	address, service, _ := strings.Cut(text, ",")
	return balancer{address, service}, net.ParseIP(address) != nil && service != ""
}

// shutdownTime is how long requests that are under way may take at the end.
const shutdownTime = 10 * time.Second

func serve(ctx context.Context, c *controller) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	health := http.NewServeMux()
	health.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if c.proxy.table.Load().private == nil {
			http.Error(w, "nothing is routed yet", http.StatusServiceUnavailable)
		}
	})
	var servers []*http.Server
	for port, handler := range map[int]http.Handler{PublicPort: c.proxy.public(), PrivatePort: c.proxy.private(), HealthPort: health} {
		listener, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if err != nil {
			return err
		}
		var protocols http.Protocols
		protocols.SetHTTP1(true)
		protocols.SetUnencryptedHTTP2(true)
		server := &http.Server{Handler: handler, Protocols: &protocols, ReadHeaderTimeout: time.Minute}
		servers = append(servers, server)
		go func() { cancel(server.Serve(listener)) }()
	}
	c.run(ctx)
	var err error
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		err = cause
	}
	grace, end := context.WithTimeout(context.Background(), shutdownTime)
	defer end()
	for _, server := range servers {
		err = errors.Join(err, server.Shutdown(grace))
	}
	return err
}
