package site

import (
	"context"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/link"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/netem"
)

// links are the links of a testbed, by their ids, as a run uses them.
type links struct {
	site         Site
	verification link.Verification
}

func (l links) all() link.Links { return link.Links{Data: l.site.Data, Hosts: l.site.Hosts} }

func (l links) Observe(ctx context.Context, id string) (netem.Profile, error) {
	parsed, err := link.Parse(id)
	if err != nil {
		return netem.Profile{}, err
	}
	status, err := l.all().Observe(ctx, parsed)
	return status.Profile, err
}

func (l links) Apply(ctx context.Context, id string, profile netem.Profile) error {
	parsed, err := link.Parse(id)
	if err != nil {
		return err
	}
	return l.all().Change(ctx, parsed, profile)
}

// measured is a link.Measurement for the record.
type measured struct {
	Packets       int     `json:"packets"`
	WantedRTT     float64 `json:"wanted_rtt_ms"` // beyond the base
	BaseRTT       float64 `json:"base_rtt_ms"`   // of the path without the link; 0 on a network
	RTTMedian     float64 `json:"rtt_median_ms"`
	RTTMin        float64 `json:"rtt_min_ms"`
	RTTMax        float64 `json:"rtt_max_ms"`
	WantedForward float64 `json:"wanted_forward_loss"` // losses are percentages
	ForwardLoss   float64 `json:"forward_loss"`
	WantedReverse float64 `json:"wanted_reverse_loss"`
	ReverseLoss   float64 `json:"reverse_loss"`
}

// Verify measures the link against the profile that it has now.
func (l links) Verify(ctx context.Context, id string) (any, error) {
	parsed, err := link.Parse(id)
	if err != nil {
		return nil, err
	}
	status, err := l.all().Observe(ctx, parsed)
	if err != nil {
		return nil, err
	}
	m, err := l.all().Verify(ctx, parsed, status.Profile, l.verification)
	return measured{
		Packets:   m.Packets,
		WantedRTT: m.WantedRTT.Seconds() * 1000,
		BaseRTT:   m.BaseRTT.Seconds() * 1000,
		RTTMedian: m.RTTMedian.Seconds() * 1000, RTTMin: m.RTTMin.Seconds() * 1000, RTTMax: m.RTTMax.Seconds() * 1000,
		WantedForward: 100 * m.WantedForward, ForwardLoss: 100 * m.ForwardLoss,
		WantedReverse: 100 * m.WantedReverse, ReverseLoss: 100 * m.ReverseLoss,
	}, err
}
