package provider

import (
	"context"
	"net/url"
	"strings"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

var (
	_ ephemeral.EphemeralResourceWithConfigure = (*kubeconfigEphemeralResource)(nil)
	_ ephemeral.EphemeralResourceWithClose     = (*kubeconfigEphemeralResource)(nil)
)

const kubeconfigForwardKey = "forward"

type kubeconfigEphemeralResource struct {
	clusters *kube.Opener
	forwards *forwards
}

// forwards are the listeners of open kubeconfigs, by address. Terraform closes
// a kubeconfig by another object than it opened it.
type forwards struct {
	mu   sync.Mutex
	open map[string]*kube.Forward
}

func (f *forwards) add(forward *kube.Forward) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open == nil {
		f.open = map[string]*kube.Forward{}
	}
	f.open[forward.Address()] = forward
}

func (f *forwards) close(address string) error {
	f.mu.Lock()
	forward := f.open[address]
	delete(f.open, address)
	f.mu.Unlock()
	if forward == nil {
		return nil
	}
	return forward.Close()
}

func newKubeconfigEphemeralResource() ephemeral.EphemeralResource {
	return &kubeconfigEphemeralResource{}
}

type kubeconfigModel struct {
	Cluster types.String `tfsdk:"cluster"`

	Kubeconfig           types.String `tfsdk:"kubeconfig"`
	Host                 types.String `tfsdk:"host"`
	ClusterCACertificate types.String `tfsdk:"cluster_ca_certificate"`
	ClientCertificate    types.String `tfsdk:"client_certificate"`
	ClientKey            types.String `tfsdk:"client_key"`
	Token                types.String `tfsdk:"token"`
}

func (r *kubeconfigEphemeralResource) Metadata(_ context.Context, req ephemeral.MetadataRequest, resp *ephemeral.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_kubeconfig"
}

func (r *kubeconfigEphemeralResource) Schema(_ context.Context, _ ephemeral.SchemaRequest, resp *ephemeral.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Gives the credentials of a cluster to other providers without storing them in the state or in a plan. " +
			"The API server of a k3s cluster listens inside its host, which other providers cannot enter; so this provider listens on a free port of this machine's loopback and passes connections on, until Terraform closes the resource at the end of the run. " +
			"The credentials still guard the API server; the port alone gives no access.",
		Attributes: map[string]schema.Attribute{
			"cluster": schema.StringAttribute{
				Required:            true,
				MarkdownDescription: "URL of the cluster: the `url` of a `testbed_k3s_cluster`, or `kubeconfig:///path?context=NAME`.",
			},
			"kubeconfig": schema.StringAttribute{
				Computed:            true,
				Sensitive:           true,
				MarkdownDescription: "Kubeconfig file in YAML with the cluster as its only context.",
			},
			"host": schema.StringAttribute{
				Computed:            true,
				MarkdownDescription: "URL of the API server as this machine reaches it, valid until the end of the run.",
			},
			"cluster_ca_certificate": schema.StringAttribute{
				Computed:            true,
				MarkdownDescription: "Certificate of the API server's CA, in PEM.",
			},
			"client_certificate": schema.StringAttribute{
				Computed:            true,
				MarkdownDescription: "Certificate of the administrator, in PEM; null when the cluster uses tokens.",
			},
			"client_key": schema.StringAttribute{
				Computed:            true,
				Sensitive:           true,
				MarkdownDescription: "Private key of the administrator, in PEM; null when the cluster uses tokens.",
			},
			"token": schema.StringAttribute{
				Computed:            true,
				Sensitive:           true,
				MarkdownDescription: "Bearer token; null when the cluster uses certificates.",
			},
		},
	}
}

func (r *kubeconfigEphemeralResource) Configure(_ context.Context, req ephemeral.ConfigureRequest, resp *ephemeral.ConfigureResponse) {
	if data := configured(req.ProviderData, &resp.Diagnostics); data != nil {
		r.clusters, r.forwards = data.clusters, data.forwards
	}
}

func (r *kubeconfigEphemeralResource) Open(ctx context.Context, req ephemeral.OpenRequest, resp *ephemeral.OpenResponse) {
	var model kubeconfigModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	forward, err := r.open(ctx, &model)
	if err != nil {
		addFailure(&resp.Diagnostics, "Open", "Kubeconfig", model.Cluster.ValueString(), err, "Use the url of a testbed_k3s_cluster, so that the cluster is made first.")
		return
	}
	resp.Diagnostics.Append(resp.Result.Set(ctx, &model)...)
	if forward != nil {
		r.forwards.add(forward)
		resp.Diagnostics.Append(r.note(ctx, resp, forward)...)
	}
}

// note tells Close which forward to close. Private values are JSON.
func (r *kubeconfigEphemeralResource) note(ctx context.Context, resp *ephemeral.OpenResponse, forward *kube.Forward) diag.Diagnostics {
	return resp.Private.SetKey(ctx, kubeconfigForwardKey, []byte(`"`+forward.Address()+`"`))
}

// open reads the credentials and, where the API server is inside a host, makes
// it reachable.
func (r *kubeconfigEphemeralResource) open(ctx context.Context, model *kubeconfigModel) (*kube.Forward, error) {
	config, server, err := r.clusters.Kubeconfig(ctx, model.Cluster.ValueString())
	if err != nil {
		return nil, err
	}
	current := config.Contexts[config.CurrentContext]
	cluster, user := config.Clusters[current.Cluster], config.AuthInfos[current.AuthInfo]
	var forward *kube.Forward
	if server != nil {
		inside, err := url.Parse(cluster.Server)
		if err != nil {
			return nil, err
		}
		if forward, err = kube.StartForward(server, inside.Host); err != nil {
			return nil, err
		}
		cluster.Server = "https://" + forward.Address()
	}
	text, err := clientcmd.Write(*config)
	if err != nil {
		if forward != nil {
			_ = forward.Close()
		}
		return nil, err
	}
	optional := func(value string) types.String {
		if value == "" {
			return types.StringNull()
		}
		return types.StringValue(value)
	}
	model.Kubeconfig = types.StringValue(string(text))
	model.Host = types.StringValue(cluster.Server)
	model.ClusterCACertificate = optional(string(cluster.CertificateAuthorityData))
	model.ClientCertificate = optional(string(user.ClientCertificateData))
	model.ClientKey = optional(string(user.ClientKeyData))
	model.Token = optional(user.Token)
	return forward, nil
}

func (r *kubeconfigEphemeralResource) Close(ctx context.Context, req ephemeral.CloseRequest, resp *ephemeral.CloseResponse) {
	address, diags := req.Private.GetKey(ctx, kubeconfigForwardKey)
	resp.Diagnostics.Append(diags...)
	if err := r.forwards.close(strings.Trim(string(address), `"`)); err != nil {
		addFailure(&resp.Diagnostics, "Close", "Kubeconfig", string(address), err, "")
	}
}
