module plimsoll.dev/plimsoll/test/bench/nodepressure

go 1.26.8

require (
	go.yaml.in/yaml/v3 v3.0.5
	golang.org/x/sys v0.49.0
)
