package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-nettypes/iptypes"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"
	"github.com/hashicorp/terraform-plugin-log/tflog"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/k3s"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

// k3sApplied is kept with the state: what the files on the hosts came from. It
// lets a plan tell a file that was changed on a host from one that is to be
// changed, also where the source cannot be read, and names the agents that have
// to leave, also those that the state has lost.
type k3sApplied struct {
	Version    string                     `json:"version"`
	Binary     string                     `json:"binary"` // digests
	Images     []string                   `json:"images"`
	Registries string                     `json:"registries,omitempty"`
	Agents     map[string]k3sAppliedAgent `json:"agents,omitempty"` // by the URL of the host
}

// k3sAppliedAgent is an agent that is on its host, or may be.
type k3sAppliedAgent struct {
	Name   string         `json:"name"`
	Status k3s.NodeStatus `json:"status"`
}

// privateSetter is what keeps values for the provider's eyes only.
type privateSetter interface {
	SetKey(ctx context.Context, key string, value []byte) diag.Diagnostics
}

func (a k3sApplied) save(ctx context.Context, private privateSetter) diag.Diagnostics {
	var diags diag.Diagnostics
	content, err := json.Marshal(a)
	if err != nil {
		diags.AddError("Unable to Save Private State", err.Error()+". This is a bug in the provider; please report it.")
		return diags
	}
	return private.SetKey(ctx, k3sAppliedKey, content)
}

// k3sNode is a server or an agent, and where it is in the configuration.
type k3sNode struct {
	k3sAgentModel
	at    path.Path
	agent bool
}

// nodes returns the nodes whose objects are known, the server first.
func (m *k3sClusterModel) nodes(ctx context.Context) []k3sNode {
	var all []k3sNode
	for i, element := range m.Servers.Elements() {
		var server k3sNodeModel
		if asK3sNode(ctx, element, &server) {
			all = append(all, k3sNode{
				k3sAgentModel: k3sAgentModel{Host: server.Host, NodeIP: server.NodeIP, Interface: server.Interface, Name: m.Name},
				at:            path.Root("servers").AtListIndex(i),
			})
		}
	}
	for i, element := range m.Agents.Elements() {
		var agent k3sAgentModel
		if asK3sNode(ctx, element, &agent) {
			all = append(all, k3sNode{k3sAgentModel: agent, at: path.Root("agents").AtListIndex(i), agent: true})
		}
	}
	return all
}

func asK3sNode(ctx context.Context, element attr.Value, to any) bool {
	object, ok := element.(types.Object)
	if !ok || object.IsUnknown() || object.IsNull() {
		return false
	}
	return !object.As(ctx, to, basetypes.ObjectAsOptions{}).HasError()
}

// nodeName returns the name that the node has in the cluster of that name, when
// it is known.
func (n k3sNode) nodeName(cluster string) (name string, known bool) {
	switch {
	case n.Name.IsUnknown():
		return "", false
	case !n.Name.IsNull():
		return n.Name.ValueString(), true
	case n.Host.IsUnknown() || n.Host.IsNull() || cluster == "":
		return "", false
	}
	parsed, err := url.Parse(n.Host.ValueString())
	if err != nil {
		return "", false
	}
	label := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(parsed.Hostname()))
	return cluster + "-" + strings.Trim(label, "-"), true
}

// names returns the names of all nodes, sorted, when they are known.
func (m *k3sClusterModel) names(ctx context.Context) (names []string, known bool) {
	nodes := m.nodes(ctx)
	known = len(nodes) == len(m.Servers.Elements())+len(m.Agents.Elements()) && !m.Servers.IsUnknown() && !m.Agents.IsUnknown()
	for _, node := range nodes {
		name, ok := node.nodeName(m.Name.ValueString())
		known = known && ok
		names = append(names, name)
	}
	slices.Sort(names)
	return names, known
}

// agentsAre reports whether all agents that were applied are still wanted. One
// that the state has lost since may have to leave without any other change.
func (m *k3sClusterModel) agentsAre(ctx context.Context, applied k3sApplied) bool {
	nodes := m.nodes(ctx)
	for hostURL := range applied.Agents {
		if !slices.ContainsFunc(nodes, func(n k3sNode) bool { return n.agent && n.Host.ValueString() == hostURL }) {
			return false
		}
	}
	return true
}

// agent returns the specification of an agent without its files.
func (m *k3sClusterModel) agent(node k3sNode, server k3s.Spec) (k3s.Agent, diag.Diagnostics) {
	ip, diags := node.NodeIP.ValueIPv4Address()
	name, _ := node.nodeName(server.Name)
	return k3s.Agent{
		Name: name, NodeIP: ip, Interface: node.Interface.ValueString(),
		Cluster: server.Name, ServerIP: server.NodeIP, Config: server.Config, Registries: server.Registries,
	}, diags
}

// k3sWork is one creation or change of a cluster.
type k3sWork struct {
	hosts   host.Opener
	plan    *k3sClusterModel
	spec    k3s.Spec
	host    host.Host // of the server
	joining []k3sJoining
	before  k3sApplied
	begun   k3sApplied // what may be there if the work is cut off
}

type k3sJoining struct {
	at    path.Path
	host  host.Host
	agent k3s.Agent
}

// begin notes what the work is about to leave on hosts.
func (w *k3sWork) begin() {
	w.begun = w.before
	w.begun.Agents = maps.Clone(w.before.Agents)
	if w.begun.Agents == nil {
		w.begun.Agents = map[string]k3sAppliedAgent{}
	}
	for _, joining := range w.joining {
		if _, ok := w.begun.Agents[joining.host.URL()]; !ok {
			w.begun.Agents[joining.host.URL()] = k3sAppliedAgent{Name: joining.agent.Name}
		}
	}
}

// progress logs what is waited for.
func (w *k3sWork) progress(ctx context.Context, on string) func(string) {
	began := time.Now()
	fields := map[string]any{"cluster": w.plan.URL.ValueString(), "host": on}
	return func(message string) {
		tflog.Info(ctx, message, fields, map[string]any{"after": time.Since(began).Round(time.Second).String()})
	}
}

func (w *k3sWork) failed(diags *diag.Diagnostics, verb string, at path.Path, err error) {
	var input *k3s.InputError
	if errors.As(err, &input) {
		diags.AddAttributeError(w.plan.inputPath(at, input.Field), "Unable to "+verb+" Cluster", fmt.Sprintf("Cluster %q: %s.", w.spec.Name, err))
		return
	}
	addFailure(diags, verb, "Cluster", w.spec.Name, err, "Mend the cause and apply again. If the cluster only needs longer, raise timeouts."+strings.ToLower(verb)+".")
}

// server makes the server as specified. It returns whether anything on its host
// may have changed.
func (w *k3sWork) server(ctx context.Context, verb string, diags *diag.Diagnostics) (touched bool) {
	err := k3s.Apply(ctx, w.host, w.spec, w.progress(ctx, w.host.URL()))
	if err != nil {
		w.failed(diags, verb, path.Root("servers").AtListIndex(0), err)
	}
	var input *k3s.InputError
	return !errors.As(err, &input)
}

// agents lets those agents leave that are not wanted any more, makes the others
// as specified, and observes the cluster. It returns what to keep with the
// state.
func (w *k3sWork) agents(ctx context.Context, verb string, diags *diag.Diagnostics) k3sApplied {
	if err := w.leave(ctx); err != nil {
		w.failed(diags, verb, path.Root("agents"), err)
		return w.begun
	}
	observed := w.join(ctx, verb, diags)
	if diags.HasError() {
		return w.begun
	}
	status, err := k3s.Observe(ctx, w.host)
	if err != nil {
		w.failed(diags, verb, path.Root("servers").AtListIndex(0), err)
		return w.begun
	}
	diags.Append(w.plan.set(ctx, status)...)
	w.plan.StaleNodes = stringListValue(nil)
	return k3sApplied{
		Version: w.plan.version(), Binary: status.BinarySHA256, Images: slices.Compact(append([]string{}, status.Images...)),
		Registries: status.Registries, Agents: observed,
	}
}

// leave takes out of the cluster what is not in the plan by that name.
func (w *k3sWork) leave(ctx context.Context) error {
	for _, hostURL := range slices.Sorted(maps.Keys(w.before.Agents)) {
		name := w.before.Agents[hostURL].Name
		stays := slices.ContainsFunc(w.joining, func(j k3sJoining) bool { return j.host.URL() == hostURL && j.agent.Name == name })
		if stays {
			continue
		}
		h, err := w.hosts.Open(ctx, hostURL)
		if errors.Is(err, fs.ErrNotExist) {
			h, err = nil, nil
		}
		if err == nil {
			err = k3s.Leave(ctx, w.host, h, w.spec.Name, name, w.progress(ctx, hostURL))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// join makes all agents at once and returns what was observed of them.
func (w *k3sWork) join(ctx context.Context, verb string, diags *diag.Diagnostics) map[string]k3sAppliedAgent {
	var (
		wait     sync.WaitGroup
		mu       sync.Mutex
		observed = map[string]k3sAppliedAgent{}
	)
	for _, joining := range w.joining {
		wait.Go(func() {
			err := k3s.Join(ctx, w.host, joining.host, joining.agent, w.progress(ctx, joining.host.URL()))
			var status k3s.NodeStatus
			if err == nil {
				status, err = k3s.ObserveAgent(ctx, joining.host)
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				w.failed(diags, verb, joining.at, err)
			}
			observed[joining.host.URL()] = k3sAppliedAgent{Name: joining.agent.Name, Status: status}
		})
	}
	wait.Wait()
	return observed
}

// readAgents takes those agents out of the state that are not on their hosts as
// they were applied, and returns the names of those that are stale. A host that
// cannot be asked is an error.
func (m *k3sClusterModel) readAgents(ctx context.Context, data *providerData, applied k3sApplied, diags *diag.Diagnostics) (stale []string) {
	if m.Agents.IsNull() {
		return nil
	}
	kept := []attr.Value{}
	for _, node := range m.nodes(ctx) {
		if !node.agent {
			continue
		}
		hostURL := node.Host.ValueString()
		var status k3s.NodeStatus
		h, err := data.hosts.Open(ctx, hostURL)
		if err == nil {
			status, err = k3s.ObserveAgent(ctx, h)
		}
		was := status.Stale
		status.Stale = false
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil && data.leave(diags, hostURL, err):
		case err != nil:
			addFailure(diags, "Read", "Cluster", m.Name.ValueString(), err, "Check that the host "+hostURL+" runs and can be reached. A node that cannot be asked is not taken for removed.")
			return nil
		case !reflect.DeepEqual(status, applied.Agents[hostURL].Status):
			diags.AddWarning("Agent Was Changed", fmt.Sprintf("The files of k3s on %s are not those that were applied there, so the agent is left out of cluster %q. The next apply restores them.", hostURL, m.Name.ValueString()))
			continue
		}
		if name, _ := node.nodeName(m.Name.ValueString()); was {
			stale = append(stale, name)
		}
		element, more := types.ObjectValueFrom(ctx, k3sAgentType.AttrTypes, node.k3sAgentModel)
		diags.Append(more...)
		kept = append(kept, element)
	}
	list, more := types.ListValue(k3sAgentType, kept)
	diags.Append(more...)
	m.Agents = list
	return stale
}

// removeAgents removes k3s from the hosts of agents, of which the server need
// not know, since it goes next.
func removeAgents(ctx context.Context, data *providerData, cluster string, applied k3sApplied, diags *diag.Diagnostics) error {
	urls := slices.Sorted(maps.Keys(applied.Agents))
	errs := make([]error, len(urls))
	var wait sync.WaitGroup
	for i, hostURL := range urls {
		wait.Go(func() {
			h, err := data.hosts.Open(ctx, hostURL)
			if err == nil {
				err = k3s.RemoveAgent(ctx, h, cluster)
			}
			errs[i] = err
		})
	}
	wait.Wait()
	for i, err := range errs {
		if errors.Is(err, fs.ErrNotExist) || err != nil && data.leave(diags, urls[i], err) {
			errs[i] = nil
		}
	}
	return errors.Join(errs...)
}

// adoptAgents finds the agents of an imported cluster by what the provider
// wrote on their nodes.
func (m *k3sClusterModel) adoptAgents(ctx context.Context, hosts host.Opener, serverURL string, applied *k3sApplied) (diags diag.Diagnostics) {
	cluster, err := kube.NewOpener(hosts).Open(ctx, "k3s+"+serverURL)
	if err != nil {
		diags.AddError("Unable to Import Cluster", err.Error()+".")
		return diags
	}
	defer cluster.Close()
	all, err := cluster.Hosts(ctx)
	if err != nil {
		diags.AddError("Unable to Import Cluster", err.Error()+".")
		return diags
	}
	var agents []k3sAgentModel
	applied.Agents = map[string]k3sAppliedAgent{}
	for _, h := range all[1:] {
		status, err := k3s.ObserveAgent(ctx, h)
		var spec k3s.Spec
		if err == nil {
			spec, err = k3s.ParseConfig(status.ConfigYAML)
		}
		if err != nil {
			diags.AddError("Unable to Import Cluster", fmt.Sprintf("The agent on %s: %s.", h.URL(), err))
			return diags
		}
		agent := k3sAgentModel{Host: types.StringValue(h.URL()), NodeIP: iptypes.NewIPv4AddressValue(spec.NodeIP.String())}
		if spec.Interface != "" {
			agent.Interface = types.StringValue(spec.Interface)
		}
		if name, _ := (k3sNode{k3sAgentModel: agent}).nodeName(m.Name.ValueString()); name != spec.Name {
			agent.Name = types.StringValue(spec.Name)
		}
		agents = append(agents, agent)
		status.Stale = false
		applied.Agents[h.URL()] = k3sAppliedAgent{Name: spec.Name, Status: status}
	}
	if len(agents) > 0 {
		var more diag.Diagnostics
		m.Agents, more = types.ListValueFrom(ctx, k3sAgentType, agents)
		diags.Append(more...)
	}
	return diags
}

// stringListValue is the inverse of stringList, empty rather than null.
func stringListValue(elements []string) types.List {
	list, _ := types.ListValueFrom(context.Background(), types.StringType, append([]string{}, elements...)) // strings always convert
	return list
}
