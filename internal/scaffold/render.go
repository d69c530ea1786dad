package scaffold

import (
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-testbed/terraform-provider-testbed/examples/modules"
)

// Files returns the content of the experiment's files by their paths.
func (e Experiment) Files() (map[string][]byte, error) {
	if err := e.Validate(); err != nil {
		return nil, err
	}
	files := map[string][]byte{"main.tf": e.main(), "outputs.tf": e.outputs()}
	err := fs.WalkDir(modules.FS, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := modules.FS.ReadFile(name)
		files[path.Join("modules", name)] = content
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("copy the modules: %w", err)
	}
	return files, nil
}

// writer writes HCL, an empty line before each block.
type writer struct {
	file *hclwrite.File
}

func newWriter() *writer { return &writer{file: hclwrite.NewEmptyFile()} }

func (w *writer) bytes() []byte { return hclwrite.Format(w.file.Bytes()) }

// comment writes lines of text before what comes next.
func (w *writer) comment(lines ...string) {
	if len(w.file.Body().Blocks()) > 0 {
		w.file.Body().AppendNewline()
	}
	for _, line := range lines {
		w.file.Body().AppendUnstructuredTokens(hclwrite.Tokens{{Type: hclsyntax.TokenComment, Bytes: []byte("# " + line + "\n")}})
	}
}

// block writes a block whose body fill writes. It follows a comment at once.
func (w *writer) block(kind string, labels []string, fill func(body)) {
	content := w.file.Bytes()
	if len(content) > 0 && !lastIsComment(content) && len(w.file.Body().Blocks()) > 0 {
		w.file.Body().AppendNewline()
	}
	fill(body{w.file.Body().AppendNewBlock(kind, labels).Body()})
}

func lastIsComment(content []byte) bool {
	lines := strings.Split(strings.TrimRight(string(content), "\n"), "\n")
	return strings.HasPrefix(lines[len(lines)-1], "#")
}

// body writes the attributes of a block.
type body struct{ *hclwrite.Body }

// text sets an attribute to a string, whatever is in it.
func (b body) text(name, value string) { b.SetAttributeValue(name, cty.StringVal(value)) }

// expression sets an attribute to an expression of the language.
func (b body) expression(name, source string) {
	b.SetAttributeRaw(name, tokens(source))
}

// tokens are those of an expression that this package wrote itself, so it is
// one.
func tokens(source string) hclwrite.Tokens {
	file, diags := hclwrite.ParseConfig([]byte("x = "+source+"\n"), "", hcl.InitialPos)
	if diags.HasErrors() {
		panic(fmt.Sprintf("scaffold: %q is no expression: %s", source, diags))
	}
	return file.Body().GetAttribute("x").Expr().BuildTokens(nil)
}

// quoted is a string as an expression.
func quoted(text string) string {
	return string(hclwrite.TokensForValue(cty.StringVal(text)).Bytes())
}

func (b body) in(kind string, fill func(body)) { fill(body{b.AppendNewBlock(kind, nil).Body()}) }

// identifier is a name as resources and modules have it.
func identifier(name string) string { return strings.ReplaceAll(name, "-", "_") }

func (e Experiment) serving() Site   { return e.Sites[len(e.Sites)-1] }
func (e Experiment) calling() []Site { return e.Sites[:len(e.Sites)-1] }

func (e Experiment) main() []byte {
	w := newWriter()
	w.comment("Response times of functions at "+e.serving().Name+", called from "+strings.Join(siteList(e.calling()), ", ")+": over ClusterLink",
		"against the direct path, on links that the hosts' kernels emulate. Written by",
		"\"terraform-provider-testbed new\"; it is yours to change.")
	w.file.Body().AppendNewline()
	w.block("terraform", nil, func(b body) {
		b.text("required_version", ">= 1.11")
		b.in("required_providers", func(b body) {
			b.expression("testbed", `{ source = "terraform-testbed/testbed" }`)
		})
	})
	w.block("provider", []string{"testbed"}, func(b body) {
		b.expression("data_dir", `abspath("${path.root}/testbed")`)
	})
	e.hosts(w)
	e.overlay(w)
	e.sites(w)
	e.links(w)
	e.functions(w)
	e.runs(w)
	return w.bytes()
}

func siteList(sites []Site) []string {
	var names []string
	for _, site := range sites {
		names = append(names, site.Name)
	}
	return names
}

func (e Experiment) hosts(w *writer) {
	w.comment("The hosts, what they have to be good for, and the addresses at which they reach", "each other.")
	var addresses []string
	for _, site := range append([]Site{{Name: lighthouse, Host: e.Lighthouse}}, e.Sites...) {
		needs := `["overlay", "link", "cluster"]`
		if site.Name == lighthouse {
			needs = `["overlay"]`
		}
		w.block("resource", []string{"testbed_ssh_host", identifier(site.Name)}, func(b body) {
			address, user, port := site.parts()
			b.text("address", address)
			if port != 0 {
				b.SetAttributeValue("port", cty.NumberIntVal(port))
			}
			if user != "" {
				b.text("user", user)
			}
			b.expression("requires", needs)
		})
		addresses = append(addresses, site.Name+" = "+quoted(site.Underlay.String()))
	}
	w.block("locals", nil, func(b body) { b.expression("underlay", "{\n"+strings.Join(addresses, "\n")+"\n}") })
}

func (e Experiment) overlay(w *writer) {
	w.comment("The overlay, with its lighthouse on a host of its own.")
	w.block("resource", []string{"testbed_nebula_ca", "continuum"}, func(b body) {
		b.text("name", "continuum")
		b.expression("networks", `["198.19.0.0/24"]`)
	})
	w.block("resource", []string{"testbed_nebula_lighthouse", "this"}, func(b body) {
		b.expression("host", "testbed_ssh_host.lighthouse.url")
		b.expression("ca", "testbed_nebula_ca.continuum.id")
		b.text("network", "198.19.0.1/24")
		b.expression("underlay", "local.underlay.lighthouse")
	})
}

func (e Experiment) sites(w *writer) {
	w.comment("The sites, each a host with an overlay node, a k3s cluster and a ClusterLink", "peer. Networks of pods and services are distinct at each.")
	w.block("resource", []string{"testbed_clusterlink_fabric", "continuum"}, func(b body) { b.text("name", "continuum") })
	for i, site := range e.Sites {
		w.block("module", []string{identifier(site.Name)}, func(b body) {
			b.text("source", "./modules/continuum-site")
			b.AppendNewline()
			b.text("name", site.Name)
			b.expression("host", "testbed_ssh_host."+identifier(site.Name)+".url")
			b.expression("overlay", fmt.Sprintf("{ ca = testbed_nebula_ca.continuum.id, network = \"198.19.0.%d/24\" }", 11+i))
			b.expression("lighthouses", "[testbed_nebula_lighthouse.this.endpoint]")
			b.text("cluster_cidr", fmt.Sprintf("10.%d.0.0/16", 44+2*i))
			b.text("service_cidr", fmt.Sprintf("10.%d.0.0/16", 45+2*i))
			b.expression("fabric", "testbed_clusterlink_fabric.continuum.id")
		})
	}
}

func (e Experiment) links(w *writer) {
	w.comment("The links between the calling sites and "+e.serving().Name+". A scenario gives them a", "profile; what the way between the hosts takes by itself comes on top.")
	for _, scenario := range e.Scenarios {
		w.block("resource", []string{"testbed_netem_profile", identifier(scenario.Name)}, func(b body) {
			b.text("rtt", scenario.RTT.String())
			if scenario.Jitter > 0 {
				b.text("jitter", scenario.Jitter.String())
				b.text("distribution", "normal")
			}
			if scenario.Loss > 0 {
				b.expression("loss", "{ random = { percent = "+strconv.FormatFloat(scenario.Loss, 'f', -1, 64)+" } }")
			}
		})
	}
	for _, site := range e.calling() {
		w.block("resource", []string{"testbed_link", identifier(site.Name)}, func(b body) {
			b.expression("between", fmt.Sprintf("[module.%s.host, module.%s.host]", identifier(site.Name), identifier(e.serving().Name)))
			b.expression("addresses", fmt.Sprintf("[[local.underlay.%s], [local.underlay.%s]]", site.Name, e.serving().Name))
			b.expression("profile", "testbed_netem_profile."+identifier(e.Scenarios[0].Name)+".json")
			b.expression("verify", "{}")
			b.AppendNewline()
			b.expression("depends_on", fmt.Sprintf("[module.%s, module.%s]", identifier(site.Name), identifier(e.serving().Name)))
		})
	}
}

func (e Experiment) functions(w *writer) {
	w.comment("The functions, and the ways to them.")
	var names []string
	for _, function := range e.Functions {
		names = append(names, function.Name+" = "+quoted(function.Builtin))
	}
	w.block("resource", []string{"testbed_function", "this"}, func(b body) {
		b.expression("for_each", "{ "+strings.Join(names, ", ")+" }")
		b.AppendNewline()
		b.expression("cluster", "module."+identifier(e.serving().Name)+".cluster")
		b.expression("name", "each.key")
		b.expression("builtin", "each.value")
		b.expression("underlay", "local.underlay."+e.serving().Name)
	})
	for _, site := range e.calling() {
		w.block("module", []string{"clusterlink_" + identifier(site.Name)}, func(b body) {
			b.text("source", "./modules/clusterlink-pair")
			b.AppendNewline()
			b.expression("importer", "module."+identifier(site.Name))
			b.expression("exporter", "module."+identifier(e.serving().Name))
			b.expression("services", "{ for name, function in testbed_function.this : name => function.port }")
		})
	}
}

func (e Experiment) runs(w *writer) {
	w.comment("The experiment, and what it found as a page with figures and tables.")
	for i, site := range e.calling() {
		w.block("resource", []string{"testbed_benchmark_run", identifier(site.Name)}, func(b body) {
			b.text("name", site.Name)
			b.expression("client", "{ cluster = module."+identifier(site.Name)+".cluster }")
			b.AppendNewline()
			b.expression("functions", e.runFunctions())
			b.AppendNewline()
			b.text("baseline", "direct")
			b.expression("arms", `{
  underlay = {
    path = "NodePort on the underlay address"
    urls = { for name, function in testbed_function.this : name => function.underlay_url }
  }
  direct = {
    path = "NodePort on the overlay address"
    urls = { for name, function in testbed_function.this : name => function.node_port_url }
  }
  clusterlink = {
    path = "ClusterLink import"
    urls = module.clusterlink_`+identifier(site.Name)+`.urls
  }
}`)
			b.AppendNewline()
			b.expression("scenarios", e.runScenarios(site))
			b.AppendNewline()
			b.expression("describe", "[module."+identifier(e.serving().Name)+".cluster]")
			b.expression("connections", `["reuse", "new"]`)
			b.SetAttributeValue("requests", cty.NumberIntVal(100))
			b.SetAttributeValue("blocks", cty.NumberIntVal(10))
			if i > 0 {
				// The serving site is one, so the sites take turns.
				b.AppendNewline()
				b.expression("depends_on", "[testbed_benchmark_run."+identifier(e.calling()[i-1].Name)+"]")
			}
		})
	}
	var folders []string
	for _, site := range e.calling() {
		folders = append(folders, "testbed_benchmark_run."+identifier(site.Name)+".results_folder")
	}
	w.block("resource", []string{"testbed_report", "this"}, func(b body) {
		b.expression("runs", "["+strings.Join(folders, ", ")+"]")
		b.expression("output_dir", `abspath("${path.root}/report")`)
	})
}

func (e Experiment) runFunctions() string {
	source := "{\n"
	for _, function := range e.Functions {
		options := "{}"
		if function.Payload > 0 {
			options = fmt.Sprintf("{ payload_bytes = %d, echo = true }", function.Payload)
		}
		source += function.Name + " = " + options + "\n"
	}
	return source + "}"
}

func (e Experiment) runScenarios(site Site) string {
	source := "{\n"
	for _, scenario := range e.Scenarios {
		source += fmt.Sprintf("%s = { profiles = { (testbed_link.%s.id) = testbed_netem_profile.%s.json } }\n",
			scenario.Name, identifier(site.Name), identifier(scenario.Name))
	}
	return source + "}"
}

func (e Experiment) outputs() []byte {
	w := newWriter()
	for _, site := range e.calling() {
		w.block("output", []string{"comparisons_" + identifier(site.Name)}, func(b body) {
			b.text("description", "ClusterLink's overhead against the direct path from "+site.Name+", in milliseconds and as a ratio of medians.")
			b.expression("value", "testbed_benchmark_run."+identifier(site.Name)+".comparisons")
		})
	}
	w.block("output", []string{"report"}, func(b body) {
		b.text("description", "The page that shows it all.")
		b.expression("value", "testbed_report.this.html")
	})
	return w.bytes()
}
