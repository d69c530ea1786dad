package provider

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timetypes/timetypes"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/control"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/ssh"
)

// Defaults of the ssh settings.
const (
	sshKeepalive = 15 * time.Second
	sshTimeout   = 30 * time.Second
)

// sshModel is how hosts are reached by SSH. It is part of the provider's
// configuration, which is not kept in state.
type sshModel struct {
	User          types.String         `tfsdk:"user"`
	PrivateKey    types.String         `tfsdk:"private_key"`
	Passphrase    types.String         `tfsdk:"passphrase"`
	IdentityFiles []types.String       `tfsdk:"identity_files"`
	Agent         types.Bool           `tfsdk:"agent"`
	ConfigFile    types.String         `tfsdk:"config_file"`
	KnownHosts    []types.String       `tfsdk:"known_hosts_files"`
	CheckHostKeys types.Bool           `tfsdk:"check_host_keys"`
	Bastion       types.String         `tfsdk:"bastion"`
	SudoPassword  types.String         `tfsdk:"sudo_password"`
	Keepalive     timetypes.GoDuration `tfsdk:"keepalive"`
	Timeout       timetypes.GoDuration `tfsdk:"timeout"`
}

func sshAttribute() schema.Attribute {
	return schema.SingleNestedAttribute{
		Optional:            true,
		MarkdownDescription: "How hosts with `ssh://` URLs are reached and logged in to. Without it, or for what it leaves out, it is as for the `ssh` command: keys of the SSH agent and of `~/.ssh`, `~/.ssh/config`, `~/.ssh/known_hosts`. None of it is kept in state.",
		Attributes: map[string]schema.Attribute{
			"user": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "User to log in as where a host's URL names none. By default what `config_file` says, else the user who runs Terraform.",
			},
			"private_key": schema.StringAttribute{
				Optional: true, Sensitive: true,
				MarkdownDescription: "Private key to log in with, in PEM or OpenSSH format. Then no other keys are tried but those of `identity_files`.",
			},
			"passphrase": schema.StringAttribute{
				Optional: true, Sensitive: true,
				MarkdownDescription: "Passphrase of private keys that have one and are not held by the SSH agent.",
			},
			"identity_files": schema.ListAttribute{
				ElementType: types.StringType, Optional: true,
				MarkdownDescription: "Paths of private keys to log in with; `~/` is the home folder. Then no other keys are tried but `private_key`.",
			},
			"agent": schema.BoolAttribute{
				Optional:            true,
				MarkdownDescription: "Whether to use the SSH agent that `SSH_AUTH_SOCK` names; true by default.",
			},
			"config_file": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "Configuration file of the SSH client, `~/.ssh/config` by default, none if empty. Of it count `HostName`, `Port`, `User`, `IdentityFile`, `IdentitiesOnly`, `IdentityAgent`, `ProxyJump`, `HostKeyAlias` and `Include`; `Match` and `ProxyCommand` are errors.",
			},
			"known_hosts_files": schema.ListAttribute{
				ElementType: types.StringType, Optional: true,
				MarkdownDescription: "Files with the keys of known hosts; `~/.ssh/known_hosts` and `/etc/ssh/ssh_known_hosts` by default. An unknown host is an error: nothing is added to them.",
			},
			"check_host_keys": schema.BoolAttribute{
				Optional:            true,
				MarkdownDescription: "Whether hosts without a pinned `host_key` must be in `known_hosts_files`; true by default. Without the check, whoever answers at a host's address gets to run what is meant for the host.",
			},
			"bastion": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "Host to go through, as `[user@]address[:port]`; several are separated by commas, as in `ssh -J`. By default the `ProxyJump` of `config_file`.",
			},
			"sudo_password": schema.StringAttribute{
				Optional: true, Sensitive: true,
				MarkdownDescription: "Password by which users other than root become root with `sudo`; not needed where `sudo` asks for none.",
			},
			"keepalive": schema.StringAttribute{
				Optional: true, CustomType: timetypes.GoDurationType{},
				MarkdownDescription: "Time between two questions whether a host is still there, `" + sshKeepalive.String() + "` by default, `0s` for none. A host that does not answer for 30 s counts as unreachable, and ends what it was doing for the provider.",
			},
			"timeout": schema.StringAttribute{
				Optional: true, CustomType: timetypes.GoDurationType{},
				MarkdownDescription: "Time for reaching a host and logging in, `" + sshTimeout.String() + "` by default.",
			},
		},
	}
}

// unknown reports whether something is not known yet.
func (m *sshModel) unknown() bool {
	if m == nil {
		return false
	}
	texts := append([]types.String{m.User, m.PrivateKey, m.Passphrase, m.ConfigFile, m.Bastion, m.SudoPassword}, append(m.IdentityFiles, m.KnownHosts...)...)
	return slices.ContainsFunc(texts, types.String.IsUnknown) || m.Agent.IsUnknown() || m.CheckHostKeys.IsUnknown()
}

// config returns how hosts are reached by SSH, for a model that may be nil.
func (m *sshModel) config(dataDir string) (ssh.Config, diag.Diagnostics) {
	var diags diag.Diagnostics
	if m == nil {
		m = &sshModel{}
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = "/"
	}
	config := ssh.Config{
		User:         m.User.ValueString(),
		PrivateKey:   m.PrivateKey.ValueString(),
		Passphrase:   m.Passphrase.ValueString(),
		AgentSocket:  os.Getenv("SSH_AUTH_SOCK"),
		ConfigFile:   filepath.Join(home, ".ssh", "config"),
		KnownHosts:   []string{filepath.Join(home, ".ssh", "known_hosts"), "/etc/ssh/ssh_known_hosts"},
		SkipHostKeys: !m.CheckHostKeys.IsNull() && !m.CheckHostKeys.ValueBool(),
		Bastion:      m.Bastion.ValueString(),
		SudoPassword: m.SudoPassword.ValueString(),
		Keepalive:    sshKeepalive,
		Timeout:      sshTimeout,
		Records:      ssh.Records(filepath.Join(dataDir, "ssh")),
		Owner:        sshOwner(dataDir),
	}
	for _, file := range m.IdentityFiles {
		config.IdentityFiles = append(config.IdentityFiles, file.ValueString())
	}
	if !m.Agent.IsNull() && !m.Agent.ValueBool() {
		config.AgentSocket = ""
	}
	if !m.ConfigFile.IsNull() {
		config.ConfigFile = m.ConfigFile.ValueString()
	}
	if m.KnownHosts != nil {
		config.KnownHosts = nil
		for _, file := range m.KnownHosts {
			config.KnownHosts = append(config.KnownHosts, file.ValueString())
		}
	}
	at := path.Root("ssh")
	for name, setting := range map[string]struct {
		value timetypes.GoDuration
		to    *time.Duration
	}{"keepalive": {m.Keepalive, &config.Keepalive}, "timeout": {m.Timeout, &config.Timeout}} {
		if setting.value.IsNull() || setting.value.IsUnknown() {
			continue
		}
		duration, more := setting.value.ValueGoDuration()
		diags.Append(more...)
		if duration < 0 || name == "timeout" && duration == 0 {
			addAttributeFailure(&diags, at.AtName(name), fmt.Errorf("%s is no time to wait", duration))
		}
		*setting.to = duration
	}
	return config, diags
}

// sshOwner tells others who changes their hosts.
func sshOwner(dataDir string) control.Owner {
	name := "somebody"
	if current, err := user.Current(); err == nil {
		name = current.Username
	}
	machine, err := os.Hostname()
	if err != nil {
		machine = "a machine without name"
	}
	return control.Owner{
		ID:   rand.Text(),
		Name: fmt.Sprintf("%s on %s (testbed in %s, process %d)", name, machine, dataDir, os.Getpid()),
	}
}

// SSHHosts returns the opener of hosts with ssh:// URLs that a provider without
// configuration has.
func SSHHosts() *ssh.Opener {
	config, _ := (*sshModel)(nil).config(defaultDataDir) // nothing in it can be wrong
	return ssh.NewOpener(config)
}
