package cgroup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const hybrid = `22 28 0:20 / /sys rw,nosuid shared:7 - sysfs sysfs rw
30 22 0:26 / /sys/fs/cgroup ro,nosuid shared:9 - tmpfs tmpfs ro,mode=755
31 30 0:27 / /sys/fs/cgroup/unified rw,nosuid shared:10 - cgroup2 cgroup2 rw,nsdelegate
32 30 0:28 / /sys/fs/cgroup/systemd rw,nosuid shared:11 - cgroup cgroup rw,xattr,release_agent=/lib/systemd/systemd-cgroups-agent,name=systemd
33 30 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:12 - cgroup cgroup rw,cpu,cpuacct
34 30 0:30 / /sys/fs/cgroup/memory rw,nosuid shared:13 - cgroup cgroup rw,memory
35 30 0:30 / /mnt/memory rw,nosuid shared:13 - cgroup cgroup rw,memory
36 30 0:31 /docker /mnt/pids rw,nosuid - cgroup cgroup rw,pids
`

func TestParse(t *testing.T) {
	for _, test := range []struct {
		name, mountinfo string
		want            Hierarchies
		version         int
	}{
		{"hybrid", hybrid, Hierarchies{
			{Mount: "/sys/fs/cgroup/unified", Unified: true},
			{Mount: "/sys/fs/cgroup/systemd", Options: []string{"name=systemd"}},
			{Mount: "/sys/fs/cgroup/cpu,cpuacct", Options: []string{"cpu", "cpuacct"}},
			{Mount: "/sys/fs/cgroup/memory", Options: []string{"memory"}},
		}, 1},
		{
			"unified",
			"35 24 0:30 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n",
			Hierarchies{{Mount: "/sys/fs/cgroup", Unified: true}}, 2,
		},
		{"none", "22 28 0:20 / /sys rw,nosuid shared:7 - sysfs sysfs rw\nnonsense\n", nil, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := parse([]byte(test.mountinfo))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if got.Version() != test.version {
				t.Errorf("version %d, want %d", got.Version(), test.version)
			}
		})
	}
}

// write makes files of a hierarchy, which the kernel would make.
func write(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for path, content := range files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// read returns all files of a hierarchy with content.
func read(t *testing.T, root string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		name, _ := filepath.Rel(root, path)
		files[name] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestCheck(t *testing.T) {
	v2 := t.TempDir()
	write(t, v2, map[string]string{"cgroup.controllers": "cpuset cpu io pids\n"})
	for _, test := range []struct {
		name        string
		hierarchies Hierarchies
		want        string // "" when all is there
	}{
		{"nothing", nil, "mount -t cgroup2"},
		{"v1", Hierarchies{{Options: []string{"cpu", "cpuacct"}}, {Options: []string{"cpuset"}}, {Options: []string{"memory"}}, {Options: []string{"pids"}}}, ""},
		{"v1 without pids", Hierarchies{{Options: []string{"cpu", "cpuset", "memory"}}}, `no "pids" cgroup controller; start the kernel with cgroup_enable=pids`},
		{"v2 without memory, as on a Raspberry Pi", Hierarchies{{Mount: v2, Unified: true}}, "cgroup_memory=1 (on a Raspberry Pi in /boot/firmware/cmdline.txt)"},
		{"hybrid", Hierarchies{{Mount: v2, Unified: true}, {Options: []string{"memory"}}}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := test.hierarchies.Check()
			if err == nil != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestCreateV1(t *testing.T) {
	root := t.TempDir()
	write(t, root, map[string]string{
		"cpuset.cpus": "0-3\n", "cpuset.mems": "0\n",
		// The kernel makes these, empty, with each group; one was set before.
		"testbed/cpuset.cpus": "0-1\n", "testbed/cpuset.mems": "\n",
		"testbed/1/edge/cpuset.cpus": "", "testbed/1/edge/cpuset.mems": "",
		"testbed/1/cpuset.cpus": "", "testbed/1/cpuset.mems": "",
	})
	if err := (Hierarchies{{Mount: root, Options: []string{"cpuset"}}}).Create("testbed/1/edge"); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"cpuset.cpus": "0-3\n", "cpuset.mems": "0\n",
		"testbed/cpuset.cpus": "0-1\n", "testbed/cpuset.mems": "0\n",
		"testbed/1/cpuset.cpus": "0-1\n", "testbed/1/cpuset.mems": "0\n",
		"testbed/1/edge/cpuset.cpus": "0-1\n", "testbed/1/edge/cpuset.mems": "0\n",
	}
	if diff := cmp.Diff(want, read(t, root)); diff != "" {
		t.Error(diff)
	}
}

func TestCreateV2(t *testing.T) {
	root := t.TempDir()
	available := map[string]string{}
	for _, group := range []string{"", "testbed", "testbed/1", "testbed/1/edge"} {
		available[filepath.Join(group, "cgroup.controllers")] = "cpuset cpu io memory hugetlb pids rdma\n"
		available[filepath.Join(group, "cgroup.subtree_control")] = ""
		available[filepath.Join(group, "cgroup.procs")] = ""
	}
	// A file keeps what is written to it; the kernel would add it.
	const all = "+cpu +cpuset +memory +pids +io"
	available["testbed/cgroup.subtree_control"] = "memory pids\n"
	write(t, root, available)
	hierarchies := Hierarchies{{Mount: root, Unified: true}}
	if err := hierarchies.Create("testbed/1/edge"); err != nil {
		t.Fatal(err)
	}
	controls := func() map[string]string {
		all := read(t, root)
		for name := range all {
			if filepath.Base(name) != "cgroup.subtree_control" {
				delete(all, name)
			}
		}
		return all
	}
	want := map[string]string{
		"cgroup.subtree_control": all, "testbed/cgroup.subtree_control": "+cpu +cpuset +io",
		"testbed/1/cgroup.subtree_control": all, "testbed/1/edge/cgroup.subtree_control": "",
	}
	if diff := cmp.Diff(want, controls()); diff != "" {
		t.Errorf("the host's group must not delegate while its init is in it: %s", diff)
	}
	if err := hierarchies.EnterLeaf("testbed/1/edge", "init"); err != nil {
		t.Fatal(err)
	}
	want["testbed/1/edge/cgroup.subtree_control"] = all
	if diff := cmp.Diff(want, controls()); diff != "" {
		t.Error(diff)
	}
	if procs := read(t, root)["testbed/1/edge/init/cgroup.procs"]; procs != "0" {
		t.Errorf("init's leaf got %q, want this process", procs)
	}
}

func TestRemove(t *testing.T) {
	root := t.TempDir()
	for _, group := range []string{"testbed/1/edge/init", "testbed/1/edge/kubepods/pod", "testbed/2/cloud"} {
		if err := os.MkdirAll(filepath.Join(root, group), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	hierarchies := Hierarchies{{Mount: root}}
	for range 2 {
		if err := hierarchies.Remove(t.Context(), "testbed/1/edge"); err != nil {
			t.Fatal(err)
		}
	}
	if hierarchies.Exists("testbed/1") || !hierarchies.Exists("testbed/2/cloud") {
		t.Error("the parents of other hosts stay, empty ones go")
	}
	if err := hierarchies.Remove(t.Context(), "testbed/2/cloud"); err != nil || hierarchies.Exists("testbed") {
		t.Errorf("the last host takes the parents with it: %v", err)
	}
}
