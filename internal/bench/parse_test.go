package bench

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Values may be quoted, hold ends of lines and lack one after the last row.
func TestParseSamples(t *testing.T) {
	const text = "later,block,valid,function,scenario,connection,arm,seq,warmup,total_ns,reused,error,detail\n" +
		"?,1,true,hello,edge,reuse,direct,0,true,1500000,false,,\r\n" +
		"?,1,true,hello,edge,reuse,direct,1,false,2500000,true,status,\"503: \"\"no\nservice\"\", sorry\"\n" +
		"?,2,false,\"hello\",edge,reuse,direct,1,false,9223372036854775807,true,,"
	var got []Sample
	if err := parseSamples(strings.NewReader(text), nil, func(s *Sample) { got = append(got, *s) }); err != nil {
		t.Fatal(err)
	}
	cell := Cell{Function: "hello", Scenario: "edge", Connection: "reuse", Arm: "direct"}
	want := []Sample{{Cell: cell, Block: 1, Valid: true}, {Cell: cell, Block: 1, Valid: true}, {Cell: cell, Block: 2}}
	want[0].Warmup, want[0].Total = true, 1500000
	want[1].Seq, want[1].Total, want[1].Reused, want[1].Error, want[1].Detail = 1, 2500000, true, "status", "503: \"no\nservice\", sorry"
	want[2].Seq, want[2].Total, want[2].Reused = 1, 9223372036854775807, true
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}

	var tally []Sample
	if err := parseSamples(strings.NewReader(text), forTally, func(s *Sample) { tally = append(tally, *s) }); err != nil {
		t.Fatal(err)
	}
	want[1].Detail = ""
	if diff := cmp.Diff(want, tally); diff != "" {
		t.Errorf("samples with few columns (-want +got):\n%s", diff)
	}
}

// Fields are found wherever they lie, and whatever bytes they are of.
func TestAppendFields(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for range 10000 {
		line := make([]byte, random.IntN(40))
		for i := range line {
			line[i] = []byte{',', ',' - 1, ',' + 1, ',' | 0x80, 0, 1, 0x7f, 0x80, 0xff}[random.IntN(9)]
		}
		if got, want := appendFields(nil, line), bytes.Split(line, []byte(",")); !cmp.Equal(got, want) {
			t.Fatalf("%q is split into %q, want %q", line, got, want)
		}
	}
}

func TestParseSamplesRefuses(t *testing.T) {
	const header = "block,valid,function,scenario,connection,arm,seq,warmup,total_ns,reused,error\n"
	for text, want := range map[string]string{
		"":                                       "read the header",
		"block\n1\n":                             `there is no column "valid"`,
		header + "1,true\n":                      "line 2 has 2 values for 11 columns",
		header + "1,true,f,s,new,a,1,no,1,true,": `line 2, column "warmup"`,
		header + "1,true,f,s,new,a,-,true,1,true,":          `line 2, column "seq"`,
		header + "1,true,f,s,new,a,1,true,1ms,true,":        `line 2, column "total_ns"`,
		header + "99999999999999999999,true,f,s,new,a,,,,,": `line 2, column "block"`,
		header + "9223372036854775808,true,f,s,new,a,,,,,":  `line 2, column "block"`,
		header + "1,true,\"f,s,new":                         "read the quoted value in line 2",
	} {
		if err := parseSamples(strings.NewReader(text), forTally, func(*Sample) {}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}
