package kill

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// readPIDs feeds text in pieces of a size.
func readPIDs(text string, size int) (pids []int, err error) {
	var r pidReader
	for rest := []byte(text); len(rest) > 0 && err == nil; {
		n := min(size, len(rest))
		pids, err = r.feed(pids, rest[:n])
		rest = rest[n:]
	}
	if err != nil {
		return nil, err
	}
	return r.finish(pids)
}

func TestPIDReader_ParsesChunksOfAnySize(t *testing.T) {
	for text, want := range map[string][]int{
		"":                nil,
		"0\n0\n":          {0, 0},
		"1\n22\n333\n":    {1, 22, 333},
		"4194304":         {4194304},
		"\n\n7\n":         {7},
		"999999999\n1\n":  {999999999, 1},
		"12345\n67890\n1": {12345, 67890, 1},
	} {
		for size := 1; size < 8; size++ {
			if got, err := readPIDs(text, size); err != nil || !slices.Equal(got, want) {
				t.Errorf("%q in pieces of %d: got %v, error %v, want %v", text, size, got, err, want)
			}
		}
	}
	for _, text := range []string{"-1\n", "1 2\n", "x", "9999999999\n", "1\x00"} {
		if got, err := readPIDs(text, 3); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
}

func FuzzPIDReader(f *testing.F) {
	f.Add("1\n22\n333\n", 2)
	f.Add("0\n", 1)
	f.Add("-1", 1)
	f.Fuzz(func(t *testing.T, text string, size int) {
		if size < 1 {
			return
		}
		whole, err := readPIDs(text, len(text)+1)
		pieces, pieceErr := readPIDs(text, size)
		if !slices.Equal(whole, pieces) || (err == nil) != (pieceErr == nil) {
			t.Fatalf("whole %v, %v; in pieces of %d %v, %v", whole, err, size, pieces, pieceErr)
		}
		if err != nil {
			return
		}
		var back strings.Builder
		for _, pid := range whole {
			fmt.Fprintf(&back, "%d\n", pid)
		}
		if again, err := readPIDs(back.String(), 5); err != nil || !slices.Equal(again, whole) {
			t.Fatalf("%v, formatted and parsed: got %v, error %v", whole, again, err)
		}
	})
}

func TestParsePopulated_RejectsUnknownFormats(t *testing.T) {
	for text, want := range map[string][2]bool{
		"populated 1\nfrozen 0\n": {true, true},
		"frozen 0\npopulated 0\n": {false, true},
		"":                        {false, false},
		"populated\n":             {false, false},
		"populated 2\n":           {false, false},
	} {
		if populated, known := parsePopulated([]byte(text)); populated != want[0] || known != want[1] {
			t.Errorf("%q: got %v, %v, want %v", text, populated, known, want)
		}
	}
}

func FuzzParsePopulated(f *testing.F) {
	f.Add([]byte("populated 1\nfrozen 0\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if populated, known := parsePopulated(text); populated && !known {
			t.Fatal("got populated without known")
		}
	})
}

func TestParseStat_AcceptsParenthesesInCommand(t *testing.T) {
	for text, want := range map[string]string{
		"12 (dd) D 1 12 12":     "dd D",
		"12 (foo) Z) S 1":       "foo) Z S",
		"12 (a b (c)\n) R 1":    "a b (c)\n R",
		"12 () T 1":             " T",
		"12 (dd":                "",
		"12 dd) S":              "",
		"":                      "",
		"12 (dd)":               "",
		"12 (dd) ":              "",
		"12 (plimsoll.test) Z ": "plimsoll.test Z",
	} {
		command, state, ok := parseStat([]byte(text))
		got := ""
		if ok {
			got = command + " " + string(rune(state))
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("12 (foo) Z) S 1"))
	f.Add([]byte(")("))
	f.Fuzz(func(t *testing.T, text []byte) {
		if command, _, ok := parseStat(text); ok && !bytes.Contains(text, []byte("("+command+") ")) {
			t.Fatalf("command %q is not in %q", command, text)
		}
	})
}
