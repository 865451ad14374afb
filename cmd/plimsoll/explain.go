package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/core"
)

// An explanation is what /explain tells of a node (docs/controller.md). Moments
// that are not known are left out.
type explanation struct {
	Node       string    `json:"node"`
	Leads      bool      `json:"leads"` // if not, nothing is known of decisions
	Ready      string    `json:"ready"`
	Verdict    string    `json:"verdict"`
	LastSign   time.Time `json:"lastSign,omitzero"`
	Source     string    `json:"source,omitempty"`
	SilentFrom time.Time `json:"silentFrom,omitzero"`
	Unready    time.Time `json:"notReadySince,omitzero"`
	Zone       string    `json:"zone"`
	ZoneState  string    `json:"zoneState,omitempty"`
	ZoneRate   float64   `json:"zoneRate"`
	Queued     bool      `json:"queued"`
	Ahead      int       `json:"ahead"`
	Turn       time.Time `json:"turn,omitzero"`
	Pods       int       `json:"pods"`
	NextPod    time.Time `json:"nextPod,omitzero"`
	Next       string    `json:"next,omitempty"`
	WhyNot     string    `json:"whyNotYet,omitempty"`
	Until      time.Time `json:"until,omitzero"`
	Failures   int       `json:"failures"`
}

func explain(e *core.Explanation) explanation {
	x := explanation{
		Node: e.Node, Leads: e.Leads, Ready: e.Ready.String(), Verdict: string(e.Health), LastSign: e.LastSign.UTC(), Source: string(e.Source),
		SilentFrom: e.Silent.UTC(), Unready: e.Since.UTC(), Zone: e.Zone.String(), ZoneRate: e.Rate, Queued: e.Queued, Ahead: e.Ahead,
		Turn: e.Turn.UTC(), Pods: e.Pods, NextPod: e.NextPod.UTC(), Next: e.Next, WhyNot: e.WhyNot.String(), Until: e.Until.UTC(), Failures: e.Failures,
	}
	if e.Leads {
		x.ZoneState = e.State.String()
	}
	return x
}

// ServeHTTP explains how the node fares that is asked for.
func (w *watchman) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("node")
	if name == "" {
		http.Error(out, "name a node: /explain?node=NAME", http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerWait)
	defer cancel()
	e, err := w.controller.Explain(ctx, name)
	switch {
	case err != nil:
		http.Error(out, err.Error(), http.StatusServiceUnavailable)
		return
	case !e.Known:
		http.Error(out, fmt.Sprintf("no node %q is known", name), http.StatusNotFound)
		return
	}
	out.Header().Set("Content-Type", "application/json")
	out.Header().Set("X-Content-Type-Options", "nosniff")
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(explain(&e)) // who went away reads no error
}
