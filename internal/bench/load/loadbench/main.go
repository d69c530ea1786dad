// Command loadbench prints what the load generator does beside hey, fortio and
// wrk, and beside what servers saw of its requests, with what is wanted of it.
// It makes a network namespace of its own, so that no traffic leaves it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"
)

// options are what a comparison is made with.
type options struct {
	hey, fortio, wrk string // programs
	connections      int
	rounds           int           // of the throughput
	round            time.Duration // of each generator in each of them
	seconds          time.Duration // of each other measurement
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "loadbench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == serveRole {
		return serve(ctx, args[1:])
	}
	var o options
	flags := flag.NewFlagSet("loadbench", flag.ContinueOnError)
	flags.StringVar(&o.hey, "hey", "hey", "`program`")
	flags.StringVar(&o.fortio, "fortio", "fortio", "`program`")
	flags.StringVar(&o.wrk, "wrk", "wrk", "`program`")
	flags.IntVar(&o.connections, "connections", 16, "`number` of connections of the throughput")
	flags.IntVar(&o.rounds, "rounds", 9, "`number` of rounds of the throughput, the median of which counts")
	flags.DurationVar(&o.round, "round", 2*time.Second, "`time` of each generator in each round, in whole seconds")
	flags.DurationVar(&o.seconds, "time", 4*time.Second, "`time` of each other measurement")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return inNamespace(ctx, func() error { return compare(ctx, o) })
}

// compare prints every comparison.
func compare(ctx context.Context, o options) error {
	fmt.Printf("Load generator, %d connections, GET of 1024 bytes, one machine for client and server\n\n", o.connections)
	capacity, err := throughput(ctx, o)
	if err != nil {
		return err
	}
	if err := schedule(ctx, o, 0.8*capacity); err != nil {
		return err
	}
	if err := truth(ctx, o); err != nil {
		return err
	}
	return stall(ctx)
}

// verdict says whether a target was met.
func verdict(ok bool) string {
	if ok {
		return "met"
	}
	return "MISSED"
}
