package bench

import (
	"strings"
	"testing"
)

func TestParseSize(t *testing.T) {
	for _, test := range []struct {
		text string
		want int64
	}{{"0B", 0}, {"60B", 60}, {"100KiB", 102400}, {"1.5 MiB", 1572864}, {"1GiB", 1 << 30}, {"2kB", 2000}, {"2KB", 2000}, {"1.5MB", 1500000}, {"1GB", 1e9}} {
		if got, err := ParseSize(test.text); err != nil || got != test.want {
			t.Errorf("%s: got %d, %v, want %d", test.text, got, err, test.want)
		}
	}
	for text, want := range map[string]string{
		"100":     "has no unit",
		"":        "has no unit",
		"manyMB":  "is not a size",
		"-1B":     "whole number of bytes",
		"0.5B":    "whole number of bytes",
		"NaNB":    "whole number of bytes",
		"9e99GiB": "whole number of bytes",
	} {
		if got, err := ParseSize(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %d, %v, want %q", text, got, err, want)
		}
	}
}
