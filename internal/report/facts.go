package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// change is a fact that differs between two runs; "–" stands for none.
type change struct{ Fact, Base, Run string }

// Changes returns what else is known to differ between the runs.
func (d difference) Changes() []change {
	base, run := d.Base.facts(), d.Run.facts()
	all := maps.Clone(base)
	maps.Copy(all, run)
	var changes []change
	for _, fact := range slices.Sorted(maps.Keys(all)) {
		if base[fact] != run[fact] {
			changes = append(changes, change{fact, orDash(base[fact]), orDash(run[fact])})
		}
	}
	return changes
}

func orDash(text string) string {
	if text == "" {
		return "–"
	}
	return text
}

// facts returns what may explain that a run has other times than another one.
func (r *run) facts() map[string]string {
	facts := map[string]string{
		"provider": r.Environment.Provider,
		"Nebula":   r.Environment.Nebula,
		"requests": fmt.Sprintf("%d in %d blocks, after %d", r.Plan.Requests, r.Plan.Blocks, r.Plan.Warmup),
	}
	for url, cluster := range r.Environment.Clusters {
		facts[url+": CPU"] = cluster.CPU
		for _, n := range cluster.Nodes {
			facts[url+": node "+n.Name] = strings.Join([]string{n.Kubernetes, n.Runtime, n.OS, n.Kernel, n.Arch, n.CPU + " CPUs", n.Memory}, ", ")
		}
		for _, image := range cluster.Images {
			name, version := image, ""
			if at := strings.LastIndexAny(image, ":@"); at > strings.LastIndex(image, "/") {
				name, version = image[:at], image[at+1:]
			}
			facts[url+": "+name] = version
		}
	}
	return facts
}
