package main

import (
	"os"
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/test/harness/hog"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
	"plimsoll.dev/plimsoll/test/harness/trial"
)

func TestMain(m *testing.M) {
	hog.RunIfAsked()
	os.Exit(m.Run())
}

func TestTheDemoEndsWell(t *testing.T) {
	sandbox.Need(t)
	binary, err := trial.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), options{plimsoll: binary, rate: "300MiB", limit: "512"}); err != nil {
		t.Fatal(err)
	}
}

func TestTheDemoRefusesWhatItCanNotShow(t *testing.T) {
	sandbox.Need(t)
	for _, o := range []options{
		{rate: "150MiB", limit: "300MiB"},
		{rate: "150MiB", limit: "4GiB"},
		{rate: "slow", limit: "512MiB"},
		{rate: "1KiB", limit: "512MiB"},
	} {
		if err := run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "use") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
