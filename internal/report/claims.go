package report

import (
	"fmt"
	"math"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench/load"
)

// Verdict is what a run says about a claim.
type Verdict string

// The verdicts. A claim is undecided when an interval reaches to both sides.
const (
	Holds     Verdict = "holds"
	Fails     Verdict = "does not hold"
	Undecided Verdict = "is not decided"
)

// Claim is a statement of arXiv 2405.16988 about ClusterLink against direct
// calls, held against one function and arm of a run.
type Claim struct {
	Statement string
	Function  string
	Arm       string
	Verdict   Verdict
	Evidence  []string // what the run found, one part for each scenario or number
}

// What the claims call little, small and large: the study names no numbers that
// this project may rely on.
const (
	littleMS    = 1.0  // milliseconds, or
	littleShare = 0.05 // of the baseline's median, whichever is more
	smallBytes  = 4 << 10
	largeBytes  = 10 << 10
)

// Claims holds the run in a folder against the two qualitative results of the
// study: that after its set-up ClusterLink adds little to small payloads, and
// that with larger ones the overhead grows with the delay of the link. There is
// a claim for each arm that is not the baseline and each function of a fitting
// size: one about kept connections for a small payload, one about each
// connection mode of the run for a large one.
func Claims(dir string) ([]Claim, error) {
	folder, err := bench.ReadFolder(dir)
	if err != nil {
		return nil, err
	}
	r, err := newRun(folder)
	if err != nil {
		return nil, err
	}
	return r.Claims(), nil
}

// Claims returns the claims that the run can tell something about.
func (r *run) Claims() []Claim {
	var claims []Claim
	for _, function := range r.Functions {
		for _, arm := range r.Arms[1:] {
			f := r.Plan.Functions[function]
			switch bytes := max(f.PayloadBytes, f.ResponseBytes); {
			case bytes <= smallBytes:
				claims = r.appendSmall(claims, function, arm)
			case bytes >= largeBytes:
				claims = r.appendLarge(claims, function, arm)
			}
		}
	}
	return claims
}

// worse returns the verdict on two cases together.
func (v Verdict) worse(other Verdict) Verdict {
	for _, verdict := range []Verdict{Fails, Undecided} {
		if v == verdict || other == verdict {
			return verdict
		}
	}
	return Holds
}

func (r *run) appendSmall(claims []Claim, function, arm string) []Claim {
	claim := Claim{
		Statement: fmt.Sprintf("After its set-up, %s adds little to small payloads: at most %g ms or %g %% of what %s takes, whichever is more.", arm, littleMS, 100*littleShare, r.Plan.Baseline),
		Function:  function, Arm: arm, Verdict: Holds,
	}
	for _, s := range r.Scenarios {
		cell := bench.Cell{Function: function, Scenario: s.Name, Connection: load.Reuse, Arm: arm}
		c, base := r.overhead[cell], r.result[bench.Cell{Function: function, Scenario: s.Name, Connection: load.Reuse, Arm: r.Plan.Baseline}]
		if c.Difference == nil || base.Median == nil {
			continue
		}
		limit := math.Max(littleMS, littleShare**base.Median)
		verdict := Undecided
		switch {
		case c.DifferenceHigh != nil && *c.DifferenceHigh <= limit:
			verdict = Holds
		case c.DifferenceLow != nil && *c.DifferenceLow > limit:
			verdict = Fails
		}
		claim.Verdict = claim.Verdict.worse(verdict)
		claim.Evidence = append(claim.Evidence, fmt.Sprintf("%s in %s, of %s ms", withInterval(c.Difference, c.DifferenceLow, c.DifferenceHigh, " ms"), s.Name, number(base.Median)))
	}
	if len(claim.Evidence) == 0 {
		return claims
	}
	return append(claims, claim)
}

func (r *run) appendLarge(claims []Claim, function, arm string) []Claim {
	for _, trips := range r.RoundTrips {
		if trips.Function != function || trips.Arm != arm || trips.Cost != bench.CostOverhead {
			continue
		}
		claim := Claim{
			Statement: fmt.Sprintf("With larger payloads the overhead of %s grows with the delay of the link (connections: %s).", arm, trips.Connection),
			Function:  function, Arm: arm, Verdict: Undecided,
			Evidence: []string{withInterval(&trips.Trips, trips.Low, trips.High, "") + " ms more for each ms of round-trip time"},
		}
		switch {
		case trips.Low != nil && *trips.Low > 0:
			claim.Verdict = Holds
		case trips.High != nil && *trips.High <= 0:
			claim.Verdict = Fails
		}
		claims = append(claims, claim)
	}
	return claims
}
