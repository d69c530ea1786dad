package netem

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	for _, test := range []struct{ name, in, want string }{
		{"nothing", `{}`, `{}`},
		{"zeros are left out", `{"rtt":"0ms","loss":{"random":{"percent":0}},"duplicate":0}`, `{}`},
		{"rtt is split", `{"rtt":"15ms"}`, `{"delay":"7.5ms"}`},
		{"units", `{"delay":"1500us","jitter":"0.001s","rate":"2.5gbit"}`, `{"delay":"1.5ms","jitter":"1ms","rate":"2500mbit"}`},
		{"uniform is the default", `{"delay":"1ms","jitter":"1ms","distribution":"uniform"}`, `{"delay":"1ms","jitter":"1ms"}`},
		{"model defaults", `{"loss":{"state":{"p13":1}}}`, `{"loss":{"state":{"p13":1,"p31":99,"p32":0,"p23":100,"p14":0}}}`},
		{"everything", `{"delay":"10ms","jitter":"2ms","delay_correlation":25,"distribution":"pareto","loss":{"random":{"percent":1,"correlation":25}},"duplicate":1,"duplicate_correlation":2,"corrupt":3,"corrupt_correlation":4,"reorder":5,"reorder_correlation":6,"gap":7,"rate":"1gbit","limit":8,"seed":9,"keep_order":true}`,
			`{"delay":"10ms","jitter":"2ms","delay_correlation":25,"distribution":"pareto","loss":{"random":{"percent":1,"correlation":25}},"duplicate":1,"duplicate_correlation":2,"corrupt":3,"corrupt_correlation":4,"reorder":5,"reorder_correlation":6,"gap":7,"rate":"1gbit","limit":8,"seed":9,"keep_order":true}`},
		{"an override of one attribute", `{"rtt":"10ms","jitter":"1ms","reverse":{"delay":"2ms"}}`, `{"forward":{"delay":"5ms","jitter":"1ms"},"reverse":{"delay":"2ms","jitter":"1ms"}}`},
		{"an override that changes nothing", `{"delay":"5ms","forward":{"delay":"5ms"}}`, `{"delay":"5ms"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			profile, err := Parse([]byte(test.in))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, profile.JSON()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			again, err := Parse([]byte(profile.JSON()))
			if err != nil || !again.Equal(profile) {
				t.Errorf("the canonical text reads as %s, %v", again.JSON(), err)
			}
		})
	}
}

func TestParseProblems(t *testing.T) {
	for _, test := range []struct {
		name, in   string
		attributes []string
		text       string // in the error
	}{
		{"rtt and delay", `{"rtt":"1ms","delay":"1ms"}`, []string{"rtt"}, "not both"},
		{"no unit", `{"delay":"5"}`, []string{"delay"}, `"5ms"`},
		{"negative", `{"rtt":"-5ms"}`, []string{"rtt"}, "zero or more"},
		{"no duration", `{"jitter":"soon"}`, []string{"jitter"}, `"10ms"`},
		{"jitter above delay", `{"rtt":"2ms","jitter":"1.5ms"}`, []string{"jitter"}, "raise rtt"},
		{"jitter above one delay", `{"delay":"5ms","jitter":"2ms","forward":{"delay":"1ms"}}`, []string{"jitter"}, "raise forward.delay"},
		{"no rate unit", `{"rate":"100"}`, []string{"rate"}, `"100mbit"`},
		{"zero rate", `{"rate":"0mbit"}`, []string{"rate"}, "at least 1bit"},
		{"over 100", `{"loss":{"random":{"percent":101}},"corrupt":-1}`, []string{"corrupt", "loss.random.percent"}, "from 0 to 100"},
		{"two models", `{"loss":{"random":{"percent":1},"state":{"p13":1}}}`, []string{"loss"}, "exactly one"},
		{"no model", `{"forward":{"loss":{}}}`, []string{"forward.loss"}, "exactly one"},
		{"model without its first", `{"loss":{"gemodel":{"r":1}}}`, []string{"loss.gemodel.p"}, "required"},
		{"more than certain", `{"loss":{"state":{"p13":60,"p14":50}}}`, []string{"loss.state.p14"}, "more than 100"},
		{"reorder without delay", `{"reorder":5}`, []string{"reorder"}, "set delay or rtt"},
		{"gap without reorder", `{"delay":"1ms","gap":5}`, []string{"gap"}, "set reorder"},
		{"no gap", `{"delay":"1ms","reorder":5,"gap":0}`, []string{"gap"}, "at least 1"},
		{"correlations of nothing", `{"delay_correlation":1,"duplicate_correlation":1,"corrupt_correlation":1,"reorder_correlation":1}`,
			[]string{"corrupt_correlation", "delay_correlation", "duplicate_correlation", "reorder_correlation"}, "remove it"},
		{"distribution of nothing", `{"delay":"1ms","distribution":"normal"}`, []string{"distribution"}, "set jitter"},
		{"no distribution", `{"delay":"1ms","jitter":"1ms","distribution":"gauss"}`, []string{"distribution"}, "paretonormal"},
		{"no limit", `{"limit":0}`, []string{"limit"}, "at least 1"},
		{"rtt of a direction", `{"forward":{"rtt":"1ms"}}`, []string{"forward.rtt"}, "set delay here"},
	} {
		t.Run(test.name, func(t *testing.T) {
			profile, err := Parse([]byte(test.in))
			var problems Problems
			if !errors.As(err, &problems) {
				t.Fatalf("got %s, %v", profile.JSON(), err)
			}
			var attributes []string
			for _, problem := range problems {
				attributes = append(attributes, problem.Attribute)
			}
			if diff := cmp.Diff(test.attributes, attributes); diff != "" || !strings.Contains(err.Error(), test.text) {
				t.Errorf("got %v, want %q and (-want +got):\n%s", err, test.text, diff)
			}
		})
	}
	for _, in := range []string{``, `edge`, `{"delai":"1ms"}`, `{"delay":5}`} {
		if _, err := Parse([]byte(in)); err == nil || !strings.Contains(err.Error(), "testbed_netem_profile") {
			t.Errorf("%s: got error %v", in, err)
		}
	}
}

func TestTc(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{`{}`, `tc qdisc replace dev eth0 root netem limit 1000`},
		{`{"delay":"20ms","jitter":"4ms","distribution":"normal","loss":{"random":{"percent":0.32}}}`,
			`tc qdisc replace dev eth0 root netem limit 30000 delay 20ms 4ms distribution normal loss random 0.32%`},
		{`{"delay":"50ms","rate":"1gbit","seed":5}`, `tc qdisc replace dev eth0 root netem limit 6250 delay 50ms rate 1gbit seed 5`},
		{`{"delay":"1ms","jitter":"1ms","delay_correlation":25,"duplicate":1,"corrupt":2,"corrupt_correlation":50,"reorder":25,"reorder_correlation":50,"gap":5,"limit":77}`,
			`tc qdisc replace dev eth0 root netem limit 77 delay 1ms 1ms 25% duplicate 1% corrupt 2% 50% reorder 25% 50% gap 5`},
		{`{"loss":{"gemodel":{"p":1,"r":10}}}`, `tc qdisc replace dev eth0 root netem limit 1000 loss gemodel 1% 10% 100% 0%`},
		{`{"loss":{"state":{"p13":1}}}`, `tc qdisc replace dev eth0 root netem limit 1000 loss state 1% 99% 0% 100% 0%`},
	} {
		profile, err := Parse([]byte(test.in))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, profile.Forward.Tc("eth0", 1500)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", test.in, diff)
		}
	}
}

func TestReadTc(t *testing.T) {
	for _, test := range []struct{ name, wanted, options, want string }{
		{"as wanted", `{"delay":"7.5ms","jitter":"1ms","distribution":"normal","loss":{"random":{"percent":0.32}}}`,
			`{"limit":10625,"delay":{"delay":0.0075,"jitter":0.001,"correlation":0},"loss-random":{"loss":0.0032,"correlation":0},"ecn":false,"gap":0}`,
			`{"delay":"7.5ms","jitter":"1ms","distribution":"normal","loss":{"random":{"percent":0.32}}}`},
		{"rounded", `{"delay":"7.123456789s","rate":"1001bit"}`,
			`{"limit":1000,"delay":{"delay":7.12346,"jitter":0,"correlation":0},"rate":{"rate":125,"packetoverhead":0,"cellsize":0,"celloverhead":0},"ecn":false,"gap":0}`,
			`{"delay":"7.123456789s","rate":"1001bit"}`},
		{"another delay", `{"delay":"5ms","jitter":"1ms","distribution":"pareto"}`,
			`{"limit":7500,"delay":{"delay":0.006,"jitter":0.001,"correlation":0.25},"ecn":false,"gap":0}`,
			`{"delay":"6ms","jitter":"1ms","delay_correlation":25,"distribution":"pareto"}`},
		{"another limit", `{}`, `{"limit":7,"ecn":false,"gap":0}`, `{"limit":7}`},
		{"models", `{"loss":{"state":{"p13":1}}}`,
			`{"limit":1000,"loss-gemodel":{"p":0.01,"r":0.1,"1-h":1,"1-k":0},"ecn":false,"gap":0}`,
			`{"loss":{"gemodel":{"p":1,"r":10,"one_minus_h":100,"one_minus_k":0}}}`},
		{"same model", `{"loss":{"state":{"p13":1}}}`,
			`{"limit":1000,"loss-state":{"p13":0.01,"p31":0.99,"p32":0,"p23":1,"p14":0},"ecn":false,"gap":0}`,
			`{"loss":{"state":{"p13":1,"p31":99,"p32":0,"p23":100,"p14":0}}}`},
		{"the gap that tc fills in", `{"delay":"1ms","reorder":25,"reorder_correlation":50,"duplicate":1,"corrupt":2}`,
			`{"limit":1250,"delay":{"delay":0.001,"jitter":0,"correlation":0},"duplicate":{"duplicate":0.01,"correlation":0},"reorder":{"reorder":0.25,"correlation":0.5},"corrupt":{"corrupt":0.02,"correlation":0},"ecn":false,"gap":1}`,
			`{"delay":"1ms","duplicate":1,"corrupt":2,"reorder":25,"reorder_correlation":50}`},
		{"a seed that nobody chose", `{"delay":"1ms"}`, `{"limit":1250,"delay":{"delay":0.001,"jitter":0,"correlation":0},"seed":999,"ecn":false,"gap":0}`, `{"delay":"1ms"}`},
		{"another seed", `{"delay":"1ms","seed":5}`, `{"limit":1250,"delay":{"delay":0.001,"jitter":0,"correlation":0},"seed":999,"ecn":false,"gap":0}`, `{"delay":"1ms","seed":999}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			wanted, err := Parse([]byte(test.wanted))
			if err != nil {
				t.Fatal(err)
			}
			read, err := wanted.Forward.ReadTc([]byte(test.options), 1500)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, Profile{read, read}.JSON()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	if _, err := (Direction{}).ReadTc([]byte(`{"limit":"x"}`), 1500); err == nil {
		t.Error("a limit that is no number was read")
	}
}

func TestSticks(t *testing.T) {
	for _, test := range []struct {
		from, to string
		want     bool
	}{
		{`{"delay":"1ms"}`, `{"delay":"2ms","loss":{"random":{"percent":1}}}`, false},
		{`{"delay":"2ms","jitter":"1ms","loss":{"gemodel":{"p":1}}}`, `{}`, false},
		{`{"rate":"1mbit"}`, `{"rate":"2mbit"}`, false},
		{`{"rate":"1mbit"}`, `{"delay":"1ms"}`, true},
		{`{"corrupt":1}`, `{}`, true},
		{`{"delay":"1ms","reorder":1}`, `{"delay":"1ms"}`, true},
		{`{"delay":"1ms","jitter":"1ms","distribution":"normal"}`, `{"delay":"1ms","jitter":"1ms"}`, true},
		{`{"duplicate":1,"duplicate_correlation":5}`, `{"duplicate":1}`, true},
		{`{"duplicate":1,"duplicate_correlation":5}`, `{"loss":{"random":{"percent":1,"correlation":5}}}`, false},
	} {
		from, err := Parse([]byte(test.from))
		if err != nil {
			t.Fatal(err)
		}
		to, err := Parse([]byte(test.to))
		if err != nil {
			t.Fatal(err)
		}
		if got := from.Forward.Sticks(to.Forward); got != test.want {
			t.Errorf("from %s to %s: %v", test.from, test.to, got)
		}
	}
}
