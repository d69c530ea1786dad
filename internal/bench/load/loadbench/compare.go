package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench/load"
)

// generator is a load generator whose closed loop is compared.
type generator struct {
	name string
	rate func(ctx context.Context, url string) (float64, error) // requests per second
}

func (o options) generators() []generator {
	connections, seconds := strconv.Itoa(o.connections), fmt.Sprintf("%ds", int(o.round.Seconds()))
	return []generator{
		{"testbed", func(ctx context.Context, url string) (float64, error) { return o.own(ctx, url) }},
		{"hey", printed(`Requests/sec:\s+([0-9.]+)`, o.hey, "-z", seconds, "-c", connections, "-disable-compression")},
		{"fortio", printed(`\(avg\)\s.*?([0-9.]+) qps|All done .* ([0-9.]+) qps`, o.fortio, "load", "-qps", "0", "-t", seconds, "-c", connections, "-quiet")},
		{"wrk", printed(`Requests/sec:\s+([0-9.]+)`, o.wrk, "-t", "2", "-c", connections, "-d", seconds)},
	}
}

// own measures the load generator of the testbed. It is told how many requests
// to send, so it sends some to find out how many that is.
func (o options) own(ctx context.Context, url string) (float64, error) {
	rate, requests := 0.0, 20_000
	for range 2 {
		result, err := load.Generate(ctx, o.job(url, load.Model{Concurrency: o.connections}, requests), nil)
		if err != nil {
			return 0, err
		}
		var first, last time.Duration
		for i, r := range result.Records {
			if r.Error != "" {
				return 0, fmt.Errorf("request %d: %s: %s", i, r.Error, r.Detail)
			}
			if !r.Warmup {
				if first == 0 {
					first = r.Start
				}
				last = max(last, r.Intended+r.Total)
			}
		}
		rate = float64(requests) / (last - first).Seconds()
		requests = int(rate * o.round.Seconds())
	}
	return rate, nil
}

func (o options) job(url string, model load.Model, requests int) load.Job {
	return load.Job{
		URL: url, Connection: load.Reuse, Warmup: 5, Requests: requests, Model: model,
		Timeout: 10 * time.Second, ConnectTimeout: 5 * time.Second,
	}
}

// printed runs a program with the URL as its last argument and finds the rate
// in what it prints.
func printed(pattern, program string, args ...string) func(context.Context, string) (float64, error) {
	return func(ctx context.Context, url string) (float64, error) {
		output, err := exec.CommandContext(ctx, program, append(args, url)...).CombinedOutput()
		if err != nil {
			return 0, fmt.Errorf("run %s: %w: %s", program, err, output)
		}
		found := regexp.MustCompile(pattern).FindSubmatch(output)
		if found == nil {
			return 0, fmt.Errorf("%s prints no rate: %s", program, output)
		}
		for _, number := range found[1:] {
			if len(number) > 0 {
				return strconv.ParseFloat(string(number), 64)
			}
		}
		return 0, errors.New("no rate")
	}
}

// throughput compares closed loops, in rounds that each have all generators, and
// returns the rate of ours.
func throughput(ctx context.Context, o options) (float64, error) {
	url, stop, err := start(ctx, "hello")
	if err != nil {
		return 0, err
	}
	defer stop()
	rates := map[string][]float64{}
	for range o.rounds {
		for _, g := range o.generators() {
			rate, err := g.rate(ctx, url)
			if err != nil {
				return 0, fmt.Errorf("measure %s: %w", g.name, err)
			}
			rates[g.name] = append(rates[g.name], rate)
		}
	}
	own := median(rates["testbed"])
	fmt.Printf("closed loop, requests/s, median of %d rounds of %s\n", o.rounds, o.round)
	for _, g := range o.generators() {
		rate := median(rates[g.name])
		want := map[string]float64{"hey": 1, "fortio": 1, "wrk": 0.5}[g.name]
		if want == 0 {
			fmt.Printf("  %-8s %8.0f\n", g.name, rate)
			continue
		}
		fmt.Printf("  %-8s %8.0f   testbed has %.2f of it, wanted %.1f: %s\n", g.name, rate, own/rate, want, verdict(own >= want*rate))
	}
	return own, nil
}

// schedule tells whether an open loop keeps its rate.
func schedule(ctx context.Context, o options, rate float64) error {
	url, stop, err := start(ctx, "hello")
	if err != nil {
		return err
	}
	defer stop()
	fmt.Printf("\nopen loop at 80 %% of that, %.0f requests/s for %s\n", rate, o.seconds)
	for _, arrivals := range load.ArrivalKinds() {
		n := int(rate * o.seconds.Seconds())
		model := load.Model{Kind: load.OpenLoop, Rate: rate, Arrivals: arrivals, Seed: 1, Concurrency: o.connections}
		result, err := load.Generate(ctx, o.job(url, model, n), nil)
		if err != nil {
			return err
		}
		var starts, late []time.Duration
		var last time.Duration
		for _, r := range result.Records {
			if !r.Warmup {
				starts, late = append(starts, r.Start), append(late, r.Start-r.Intended)
				last = max(last, r.Intended)
			}
		}
		slices.Sort(starts)
		slices.Sort(late)
		wanted := last - result.Records[len(result.Records)-n].Intended
		took := starts[n-1] - starts[0]
		off := float64(took)/float64(wanted) - 1
		fmt.Printf("  %-8s sent within %+.3f %% of the scheduled time, wanted 1 %%: %s; late by %s (median), %s (p99); lag %s (median)\n",
			arrivals, 100*off, verdict(off < 0.01 && off > -0.01), at(late, 0.5), at(late, 0.99), result.Lag.Median)
	}
	return nil
}

// truth compares the times of an open loop with those that the server's own
// clock gives: from when a request should have been sent to when the server had
// answered it.
func truth(ctx context.Context, o options) error {
	url, stop, err := start(ctx, "queue")
	if err != nil {
		return err
	}
	defer stop()
	const rate = 60 // the queue serves 88 a second on average
	n := 25 * int(o.seconds.Seconds()) * rate / 10
	model := load.Model{Kind: load.OpenLoop, Rate: rate, Arrivals: load.Poisson, Seed: 3, Concurrency: 64}
	job := o.job(url, model, n)
	job.Warmup = 1
	result, err := load.Generate(ctx, job, nil)
	if err != nil {
		return err
	}
	var done map[int]int64
	if err := fetch(ctx, url+"/log", &done); err != nil {
		return fmt.Errorf("read what the server saw: %w", err)
	}
	var own, seen []time.Duration
	for i, r := range result.Records {
		at, ok := done[r.BytesReceived]
		if !ok || r.Error != "" {
			return fmt.Errorf("request %d is not one that the server saw: %s %s", i, r.Error, r.Detail)
		}
		if !r.Warmup {
			own = append(own, r.Total)
			seen = append(seen, time.Duration(at-result.Started.Add(r.Intended).UnixNano()))
		}
	}
	slices.Sort(own)
	slices.Sort(seen)
	fmt.Printf("\nopen loop of %d requests, %d/s, to a queue of a log-normal service of 10 ms: time by the client, and by the server's clock\n", n, rate)
	for _, share := range []float64{0.5, 0.99} {
		a, b := at(own, share), at(seen, share)
		off := float64(a)/float64(b) - 1
		fmt.Printf("  p%-4g %10s %10s  %+.2f %%, wanted 2 %%: %s\n", 100*share, a, b, 100*off, verdict(off < 0.02 && off > -0.02))
	}
	return nil
}

// stall shows what each model makes of a server that stalls for a second.
func stall(ctx context.Context) error {
	const rate, seconds = 500, 10
	fmt.Printf("\na server that stalls for %s within %d s, %d requests/s\n", stallTime, seconds, rate)
	for _, model := range []load.Model{
		{Kind: load.OpenLoop, Rate: rate, Concurrency: 64},
		{Kind: load.ClosedLoop, Concurrency: 1, ThinkTime: time.Second / rate},
	} {
		url, stop, err := start(ctx, "stall")
		if err != nil {
			return err
		}
		if err := fetch(ctx, url+"/arm", nil); err != nil {
			stop()
			return err
		}
		result, err := load.Generate(ctx, options{}.job(url, model, rate*seconds), nil)
		stop()
		if err != nil {
			return err
		}
		var times []time.Duration
		for _, r := range result.Records {
			if !r.Warmup {
				times = append(times, r.Total)
			}
		}
		slices.Sort(times)
		p50, p999, most := at(times, 0.5), at(times, 0.999), times[len(times)-1]
		fmt.Printf("  %-6s p50 %s, p99.9 %s, max %s", model.Kind, p50, p999, most)
		if model.Open() {
			// Of the requests that are due within the second the first wait for
			// all of it and the last for none, so that one in every thousand of
			// all waits longer than this.
			want := stallTime - time.Duration(0.001*float64(len(times))/rate*float64(time.Second))
			off := float64(p999)/float64(want) - 1
			fmt.Printf("; theory says p99.9 %s, which is %+.1f %% off: %s\n", want, 100*off, verdict(off < 0.02 && off > -0.02))
			continue
		}
		fmt.Println("; a closed loop sends nothing meanwhile: one request shows the stall, the percentile does not")
	}
	return nil
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)-1)/2]
}

// at returns the value below which a share of the sorted values lies.
func at(values []time.Duration, share float64) time.Duration {
	return values[min(int(share*float64(len(values))), len(values)-1)].Round(time.Microsecond)
}
