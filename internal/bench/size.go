package bench

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// sizeUnits are those of a size in bytes, longer suffixes first.
var sizeUnits = []struct {
	name string
	size float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1},
}

// ParseSize reads a size with its unit, for example "100KiB" or "1.5MB", and
// returns whole bytes.
func ParseSize(text string) (int64, error) {
	for _, unit := range sizeUnits {
		number, ok := strings.CutSuffix(text, unit.name)
		if !ok {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		bytes := value * unit.size
		switch {
		case err != nil:
			return 0, fmt.Errorf("%q is not a size; write a number with B, kB, MB, GB, KiB, MiB or GiB, for example \"100KiB\"", text)
		case bytes != math.Trunc(bytes) || bytes < 0 || bytes > 1<<53:
			return 0, fmt.Errorf("%q is not a whole number of bytes from 0 to 2^53", text)
		}
		return int64(bytes), nil
	}
	return 0, fmt.Errorf("%q has no unit; write a number with B, kB, MB, GB, KiB, MiB or GiB, for example \"100KiB\"", text)
}
