package site

import "testing"

func TestCPUModel(t *testing.T) {
	for want, text := range map[string]string{
		"Example CPU @ 2.00GHz":          "processor\t: 0\nmodel name\t: Example CPU @ 2.00GHz\n\nprocessor\t: 1\nmodel name\t: Example CPU @ 2.00GHz\n",
		"Raspberry Pi 4 Model B Rev 1.5": "processor\t: 0\nmodel name\t: ARMv7 Processor rev 3 (v7l)\n\nHardware\t: BCM2835\nModel\t\t: Raspberry Pi 4 Model B Rev 1.5\n",
		"":                               "processor\t: 0\nBogoMIPS\t: 108.00\n",
	} {
		if got := cpuModel([]byte(text)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
