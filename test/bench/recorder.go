package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"plimsoll.dev/plimsoll/test/harness/trial"
)

// recorder measures what the flight recorder adds to an agent, and how fast its recording is repeated.
func recorder(ctx context.Context, o options) error {
	fmt.Printf("\n## Cost of recording: node of 2 GiB with %d pods x %d, median (least-most) of %d times %s\n\n", usual.pods, usual.containers, o.idleRuns, o.idle)
	fmt.Println("| state | recording | CPU, of one core | wake-ups a second | µs a wake-up | peak RSS | of it anonymous | checks: half, 99 %, all within | a day | exported in | repeated |\n|---|---|---|---|---|---|---|---|---|---|---|")
	for _, l := range []level{calm, near, below} {
		for _, records := range []bool{false, true} {
			if err := recorderRow(ctx, o, l, records); err != nil {
				return err
			}
		}
	}
	return nil
}

func recorderRow(ctx context.Context, o options, l level, records bool) (err error) {
	dir, err := os.MkdirTemp("", "plimsoll-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	address, err := trial.FreeAddress(ctx)
	if err != nil {
		return err
	}
	flags := []string{"--healthz-bind-address=" + address, "--recording-dir="}
	if records {
		flags[1] += dir
	}
	var costs []cost
	var checks string
	var written int64
	var began time.Time
	var took time.Duration
	err = watched(ctx, o, usual, l, flags, func(a *trial.Agent) (err error) {
		began = time.Now()
		before, sizeErr := sizeOf(dir)
		costs, err = costsOf(ctx, o, a.PID)
		after, lastErr := sizeOf(dir)
		if err = errors.Join(err, sizeErr, lastErr); err == nil {
			checks, err = checkDurations(ctx, address)
		}
		written, took = after-before, time.Since(began)+startTime
		if err == nil && l.above < 0 && len(a.Decisions) == 0 {
			err = errors.New("no decision below the threshold")
		}
		return err
	})
	if err != nil {
		return err
	}
	use := "off | "
	result := "- | - | -"
	if records {
		use = "on | "
		day := (24 * time.Hour).Seconds() / (time.Duration(o.idleRuns) * o.idle).Seconds()
		if result, err = repeated(ctx, o, dir, took); err != nil {
			return err
		}
		result = fmt.Sprintf("%.1f MB | %s", float64(written)*day/1e6, result)
	}
	fmt.Printf("| %s | %s%s | %s | %s |\n", l.name, use, summary(costs), checks, result)
	return nil
}

// checkDurations returns within which time half of the checks of an agent, 99 % of them and all ended, by the bounds of
// its histogram.
func checkDurations(ctx context.Context, address string) (string, error) {
	const name = "plimsoll_check_duration_seconds"
	page, err := trial.Get(ctx, "http://"+address+"/metrics")
	if err != nil {
		return "", err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(page))
	if err != nil {
		return "", fmt.Errorf("parse the metrics of the agent: %w", err)
	}
	if families[name] == nil {
		return "", fmt.Errorf("no %s among the metrics of the agent", name)
	}
	text := ""
	for _, share := range []float64{0.5, 0.99, 1} {
		bound := within(families[name].Metric, share)
		if bound == upper {
			text += "beyond the bounds, "
			continue
		}
		text += fmt.Sprintf("%g, ", 1000*bound)
	}
	return text[:len(text)-2] + " ms", nil
}

// within returns the least bound of a histogram, of all its series, for a share of the values.
func within(series []*dto.Metric, share float64) float64 {
	all, upTo := 0.0, map[float64]float64{}
	for _, m := range series {
		all += float64(m.Histogram.GetSampleCount())
		for _, b := range m.Histogram.Bucket {
			upTo[b.GetUpperBound()] += float64(b.GetCumulativeCount())
		}
	}
	least := upper
	for bound, count := range upTo {
		if count >= share*all && bound < least {
			least = bound
		}
	}
	return least
}

// upper stands for no bound, in seconds.
const upper = 1e9

// sizeOf returns the size of the files in a directory, in bytes.
func sizeOf(dir string) (size int64, err error) {
	return size, filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
}

// repeated returns the time of the export of a recording, and how much faster than it came about it is repeated.
func repeated(ctx context.Context, o options, dir string, took time.Duration) (string, error) {
	exported, err := timed(ctx, o.plimsoll, "recording", "export", "--recording-dir="+dir)
	if err != nil {
		return "", err
	}
	simulated, err := timed(ctx, o.plimsoll, "simulate", "--recording="+dir)
	return fmt.Sprintf("%.0f ms | %.0f x as fast", 1000*exported.Seconds(), took.Seconds()/simulated.Seconds()), err
}

// timed runs a program to its end and returns how long that took.
func timed(ctx context.Context, program string, args ...string) (time.Duration, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = io.Discard, os.Stderr
	began := time.Now()
	err := cmd.Run()
	return time.Since(began), err
}
