package provider

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/preflight"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/ssh"
)

var (
	_ resource.ResourceWithConfigure      = (*sshHostResource)(nil)
	_ resource.ResourceWithValidateConfig = (*sshHostResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*sshHostResource)(nil)
	_ resource.ResourceWithImportState    = (*sshHostResource)(nil)
)

// sshHostTimeout is enough for sending the agent over a slow line.
const sshHostTimeout = 5 * time.Minute

type sshHostResource struct {
	data *providerData
}

func newSSHHostResource() resource.Resource { return &sshHostResource{} }

// What becomes of a host that cannot be reached when it is to be destroyed.
const (
	unreachableFail    = "fail"
	unreachableAbandon = "abandon"
)

type sshHostModel struct {
	Address              types.String   `tfsdk:"address"`
	Port                 types.Int64    `tfsdk:"port"`
	User                 types.String   `tfsdk:"user"`
	HostKey              types.String   `tfsdk:"host_key"`
	Bastion              types.String   `tfsdk:"bastion"`
	IdentityFile         types.String   `tfsdk:"identity_file"`
	Requires             types.Set      `tfsdk:"requires"`
	OnDestroyUnreachable types.String   `tfsdk:"on_destroy_unreachable"`
	ID                   types.String   `tfsdk:"id"`
	URL                  types.String   `tfsdk:"url"`
	Hostname             types.String   `tfsdk:"hostname"`
	OS                   types.String   `tfsdk:"os"`
	Arch                 types.String   `tfsdk:"arch"`
	Kernel               types.String   `tfsdk:"kernel"`
	Timeouts             timeouts.Value `tfsdk:"timeouts"`
}

func (m *sshHostModel) target() ssh.Target {
	return ssh.Target{User: m.User.ValueString(), Address: m.Address.ValueString(), Port: uint16(m.Port.ValueInt64())}
}

func (m *sshHostModel) spec() ssh.Spec {
	spec := ssh.Spec{
		Target: m.target(),
		Record: ssh.Record{
			HostKey:      m.HostKey.ValueString(),
			Bastion:      m.Bastion.ValueString(),
			IdentityFile: m.IdentityFile.ValueString(),
			Abandon:      m.OnDestroyUnreachable.ValueString() == unreachableAbandon,
		},
	}
	for _, element := range m.Requires.Elements() {
		if need, ok := element.(types.String); ok {
			spec.Needs = append(spec.Needs, preflight.Need(need.ValueString()))
		}
	}
	slices.Sort(spec.Needs)
	return spec
}

// known reports whether everything is known that a connection depends on.
func (m *sshHostModel) known() bool {
	unknown := m.Address.IsUnknown() || m.Port.IsUnknown() || m.User.IsUnknown() || m.HostKey.IsUnknown() ||
		m.Bastion.IsUnknown() || m.IdentityFile.IsUnknown() || m.Requires.IsUnknown()
	for _, element := range m.Requires.Elements() {
		unknown = unknown || element.IsUnknown()
	}
	return !unknown
}

func (m *sshHostModel) set(status ssh.Status) {
	m.setTarget()
	m.Hostname = types.StringValue(status.Facts.Hostname)
	m.OS = types.StringValue(status.Facts.OS)
	m.Arch = types.StringValue(status.Facts.Arch)
	m.Kernel = types.StringValue(status.Facts.Kernel)
}

// setTarget sets what follows from how the host is reached.
func (m *sshHostModel) setTarget() {
	m.ID = types.StringValue(m.target().String())
	m.URL = types.StringValue(m.target().URL())
}

func (r *sshHostResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_ssh_host"
}

func (r *sshHostResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	var needs []string
	for _, need := range preflight.Needs() {
		needs = append(needs, string(need))
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "Takes a machine that is reached by SSH into the testbed: checks that it can be logged in to and is good for what is to be built on it, and puts `testbed-agent` there. What it `requires` is checked when it is planned, so that one plan names everything that is missing on all hosts. The provider's `ssh` settings say which keys are used; none of them are kept in state. Destroying it leaves nothing of the agent on the machine.",
		Attributes: map[string]schema.Attribute{
			"address": schema.StringAttribute{
				Required:            true,
				PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
				MarkdownDescription: "IP address, DNS name, or a `Host` of `~/.ssh/config`. A change makes another host of it.",
			},
			"port": schema.Int64Attribute{
				Optional:            true,
				PlanModifiers:       []planmodifier.Int64{int64planmodifier.RequiresReplace()},
				Validators:          []validator.Int64{int64validator.Between(1, 65535)},
				MarkdownDescription: "TCP port of the SSH server; that of `~/.ssh/config` or 22 by default. A change makes another host of it.",
			},
			"user": schema.StringAttribute{
				Optional:            true,
				PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
				MarkdownDescription: "User to log in as: root, or one who may use `sudo`. By default the provider's `ssh.user`, else that of `~/.ssh/config`, else who runs Terraform. A change makes another host of it.",
			},
			"host_key": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "Key that the host must show, as in a `known_hosts` file (`ssh-ed25519 AAAA...`), or its fingerprint (`SHA256:...`). Without it, it must be one of the known hosts.",
			},
			"bastion": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "Host to go through, as `[user@]address[:port]`; several are separated by commas. By default the provider's `ssh.bastion`.",
			},
			"identity_file": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "Path of the private key to log in with; by default the keys of the provider's `ssh` settings.",
			},
			"requires": schema.SetAttribute{
				ElementType: types.StringType, Optional: true,
				Validators:          []validator.Set{setvalidator.ValueStringsAre(stringvalidator.OneOf(needs...))},
				MarkdownDescription: "What the host is to be good for: `overlay` for a Nebula node, `link` for links that its kernel emulates, `cluster` for k3s. Whatever it lacks for that is an error of the plan, with the command that gets it; a host that nothing answers for at that time is only a warning, as it may not be there yet. None by default.",
			},
			"on_destroy_unreachable": schema.StringAttribute{
				Optional: true, Computed: true,
				Default:             stringdefault.StaticString(unreachableFail),
				Validators:          []validator.String{stringvalidator.OneOf(unreachableFail, unreachableAbandon)},
				MarkdownDescription: "What happens when the host, or something on it, is to be destroyed and the host cannot be reached: `fail` is an error and the default; `abandon` takes it out of the state with a warning and leaves on the host what is there. With `abandon`, a refresh does not fail either while the host cannot be reached.",
			},
			"timeouts": timeouts.Attributes(ctx, timeouts.Opts{Create: true, Read: true, Update: true, Delete: true}),
			"id": schema.StringAttribute{
				Computed:            true,
				MarkdownDescription: "How the host is reached: `[user@]address[:port]`.",
			},
			"url": schema.StringAttribute{
				Computed:            true,
				MarkdownDescription: "What other resources call the host: `ssh://[user@]address[:port]`.",
			},
			"hostname": schema.StringAttribute{
				Computed:            true,
				PlanModifiers:       []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
				MarkdownDescription: "What the host calls itself.",
			},
			"os": schema.StringAttribute{
				Computed:            true,
				PlanModifiers:       []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
				MarkdownDescription: "Name of its distribution, for example `Debian GNU/Linux 12 (bookworm)`.",
			},
			"arch": schema.StringAttribute{
				Computed:            true,
				PlanModifiers:       []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
				MarkdownDescription: "Architecture of its kernel as Go names it: `amd64`, `arm64` or `arm`.",
			},
			"kernel": schema.StringAttribute{
				Computed:            true,
				PlanModifiers:       []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
				MarkdownDescription: "Release of its kernel, as `uname -r` prints it.",
			},
		},
	}
}

func (r *sshHostResource) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	r.data = configured(req.ProviderData, &resp.Diagnostics)
}

func (r *sshHostResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var model sshHostModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if !model.Address.IsUnknown() && !model.User.IsUnknown() && !model.Port.IsUnknown() {
		if back, err := ssh.Parse(model.target().URL()); err != nil || back != model.target() {
			addAttributeFailure(&resp.Diagnostics, path.Root("address"),
				fmt.Errorf("%q is no address of a host; give the address, the user and the port in attributes of their own", model.Address.ValueString()))
		}
	}
	if model.HostKey.ValueString() != "" {
		addAttributeFailure(&resp.Diagnostics, path.Root("host_key"), ssh.CheckHostKey(model.HostKey.ValueString()))
	}
	if model.Bastion.ValueString() != "" {
		addAttributeFailure(&resp.Diagnostics, path.Root("bastion"), ssh.CheckBastion(model.Bastion.ValueString()))
	}
}

// ModifyPlan checks a host that is to be taken in, or whose use changes.
func (r *sshHostResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() {
		return
	}
	var model, before sshHostModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	if !req.State.Raw.IsNull() {
		resp.Diagnostics.Append(req.State.Get(ctx, &before)...)
	}
	if resp.Diagnostics.HasError() {
		return
	}
	if !model.Address.IsUnknown() && !model.User.IsUnknown() && !model.Port.IsUnknown() {
		model.setTarget()
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("id"), model.ID)...)
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("url"), model.URL)...)
	}
	unchanged := model.ID.Equal(before.ID) && model.HostKey.Equal(before.HostKey) && model.Bastion.Equal(before.Bastion) &&
		model.IdentityFile.Equal(before.IdentityFile) && model.Requires.Equal(before.Requires)
	if r.data == nil || r.data.sshUnknown || !model.known() || unchanged {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, sshHostTimeout)
	defer cancel()
	_, err := r.data.ssh.Check(ctx, model.spec())
	var away *ssh.ReachError
	if errors.As(err, &away) {
		resp.Diagnostics.AddWarning("Host Not Checked", fmt.Sprintf("Host %q: %s.\n\nIt is checked when it is applied.", model.ID.ValueString(), err))
		return
	}
	if err != nil {
		addSSHHostFailure(&resp.Diagnostics, "Plan", model.ID.ValueString(), err)
	}
}

func (r *sshHostResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var model sshHostModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	timeout, diags := model.Timeouts.Create(ctx, sshHostTimeout)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	status, err := r.data.ssh.Apply(ctx, model.spec())
	if err != nil {
		addSSHHostFailure(&resp.Diagnostics, "Create", model.target().String(), err)
		return
	}
	model.set(status)
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
}

func (r *sshHostResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var model sshHostModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	timeout, diags := model.Timeouts.Read(ctx, sshHostTimeout)
	resp.Diagnostics.Append(diags...)
	if model.Address.IsNull() { // it is being imported
		target, err := ssh.Parse(ssh.Scheme + model.ID.ValueString())
		if err != nil {
			addAttributeFailure(&resp.Diagnostics, path.Root("id"), err)
			return
		}
		record, err := r.data.ssh.Known(target)
		if err != nil {
			addFailure(&resp.Diagnostics, "Import", "Host", target.String(), err, "")
			return
		}
		model.setFrom(target, record)
	}
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	name := model.target().String()
	err := r.data.ssh.Remember(model.target(), model.spec().Record)
	var status ssh.Status
	if err == nil {
		status, err = r.data.ssh.Observe(ctx, model.target())
	}
	if err != nil {
		if !r.data.leave(&resp.Diagnostics, model.URL.ValueString(), err) {
			addSSHHostFailure(&resp.Diagnostics, "Read", name, err)
		}
		return
	}
	model.set(status)
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
}

// setFrom sets what the name of a host says, and what is known of it here.
func (m *sshHostModel) setFrom(target ssh.Target, record ssh.Record) {
	m.Address = types.StringValue(target.Address)
	if target.User != "" {
		m.User = types.StringValue(target.User)
	}
	if target.Port != 0 {
		m.Port = types.Int64Value(int64(target.Port))
	}
	for text, attribute := range map[string]*types.String{record.HostKey: &m.HostKey, record.Bastion: &m.Bastion, record.IdentityFile: &m.IdentityFile} {
		if text != "" {
			*attribute = types.StringValue(text)
		}
	}
	m.OnDestroyUnreachable = types.StringValue(unreachableFail)
	if record.Abandon {
		m.OnDestroyUnreachable = types.StringValue(unreachableAbandon)
	}
	m.setTarget()
}

func (r *sshHostResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var model sshHostModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	timeout, diags := model.Timeouts.Update(ctx, sshHostTimeout)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	status, err := r.data.ssh.Apply(ctx, model.spec())
	if err != nil {
		addSSHHostFailure(&resp.Diagnostics, "Update", model.target().String(), err)
		return
	}
	model.set(status)
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
}

func (r *sshHostResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var model sshHostModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	timeout, diags := model.Timeouts.Delete(ctx, sshHostTimeout)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := r.data.ssh.Remove(ctx, model.target())
	if err != nil && r.data.leave(&resp.Diagnostics, model.URL.ValueString(), err) {
		err = r.data.ssh.Forget(model.target())
	}
	if err != nil {
		addSSHHostFailure(&resp.Diagnostics, "Delete", model.target().String(), err)
	}
}

// ImportState takes [user@]address[:port].
func (r *sshHostResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	resource.ImportStatePassthroughID(ctx, path.Root("id"), req, resp)
}

// addSSHHostFailure words an error about a host that is reached by SSH.
func addSSHHostFailure(diags *diag.Diagnostics, verb, name string, err error) {
	var missing preflight.Error
	var key *ssh.HostKeyError
	var away *ssh.ReachError
	next := ""
	switch {
	case errors.As(err, &missing):
		diags.AddAttributeError(path.Root("requires"), "Unable to "+verb+" Host", fmt.Sprintf("%s.\n\nSee to that on the host, and run the same command again.", err))
		return
	case errors.As(err, &key):
		diags.AddAttributeError(path.Root("host_key"), "Unable to "+verb+" Host", fmt.Sprintf("Host %q: %s.", name, err))
		return
	case errors.As(err, &away):
		next = "See that the host is running and its SSH server answers there; a bastion or another address may be needed. If it is gone for good, set on_destroy_unreachable = \"abandon\"."
	}
	addFailure(diags, verb, "Host", name, err, next)
}

// leave reports whether an error is about a host that cannot be reached and
// whose content may be left alone then, and warns of it.
func (d *providerData) leave(diags *diag.Diagnostics, url string, err error) bool {
	if d.ssh == nil || !errors.Is(err, host.ErrUnreachable) || !d.ssh.Abandons(url) {
		return false
	}
	diags.AddWarning("Host Left Alone", fmt.Sprintf("Host %q: %s.\n\nIts on_destroy_unreachable is %q, so what is on it stays there.", url, err, unreachableAbandon))
	return true
}
