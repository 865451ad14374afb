package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
)

// A summary is what came of the demo.
type summary struct {
	Evicted          string   `json:"evicted"`
	Alive            []string `json:"alive"`
	OOMKills         int64    `json:"kernelOOMKills"`
	CrossingToLook   float64  `json:"crossingToLookMillis"` // the one that decided
	CrossingToKilled float64  `json:"crossingToKilledMillis"`
	LookToEmpty      float64  `json:"lookToKilledMillis"`
	AvailableAfter   int64    `json:"availableAfterBytes"`
	Rate             string   `json:"rate"`
	Limit            string   `json:"limit"`
}

// print writes the summary for people and as a line of JSON. It is an error if
// the demo did not end as it should.
func (sum *summary) print(s *scene) error {
	fmt.Println("Summary")
	fmt.Printf("  evicted:              %s\n", sum.Evicted)
	fmt.Printf("  alive:                %s\n", strings.Join(sum.Alive, ", "))
	fmt.Printf("  kernel OOM kills:     %d\n", sum.OOMKills)
	fmt.Printf("  crossing to killed:   %.1f ms, of which %.1f ms passed before memory was doomed or a regular look was due\n",
		sum.CrossingToKilled, sum.CrossingToLook)
	fmt.Printf("  available afterwards: %s of %s\n", size(sum.AvailableAfter>>20<<20), size(s.options.node))
	line, err := json.Marshal(sum)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stdout, "%s\n", line)
	switch {
	case sum.OOMKills > 0:
		return errors.New("the kernel's OOM killer was faster")
	case !sum.rightPod(s):
		return errors.New("another pod than the leaking one was evicted")
	}
	return nil
}
