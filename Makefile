# Plimsoll. `make help` lists what there is.

GO      ?= go
# The chart's appVersion: binary, image and chart agree. The commit is beside it.
VERSION ?= $(shell sed -n 's/^appVersion: *//p' deploy/helm/plimsoll/Chart.yaml)

# Everything is compiled in one way, but for the race detector: a machine that has
# nothing yet compiles each package once. What a debugger would want is left out: it
# is a tenth of the compiler's work. Without grpc's own traces no template is linked, whose
# calls of methods by name would keep every method of every type: 5 MB of the program.
export CGO_ENABLED = 0
export GOFLAGS := $(strip $(GOFLAGS) -trimpath -gcflags=all=-dwarf=false -tags=grpcnotrace)

# Collecting garbage is a third of the compiler's time, but tests run with it: what they
# need is compiled before.
COMPILE = GOGC=off GOMEMLIMIT=1500MiB $(GO) build

# Packages whose tests press on the real kernel: one at a time, as root.
KERNEL  := ./internal/cgroup ./cgroupnotify ./internal/kill ./test/harness/sandbox ./test/harness/hog ./test/harness/trial ./test/bench ./test/demo
# The packages of the benchmark's own module, and those of them that press on the kernel.
NPB_KERNEL := ./arena ./referee
NPB_ALL     = $(shell cd test/bench/nodepressure && $(GO) list -f '.{{slice .ImportPath (len .Module.Path)}}' ./...)
# What is tried on cgroup v2 too, in a virtual machine.
V2      := $(KERNEL) ./stats
# Packages that run goroutines of their own: under the race detector too.
RACE    := ./agent ./internal/agentexec ./internal/reload ./internal/heartbeat ./internal/decisionlog ./cgroupnotify ./internal/healthz ./internal/kube/reflector ./internal/evict ./internal/evictionlog/store ./lifecycle ./internal/metrics ./internal/checkpoint ./internal/recording/ring ./test/harness/hog
# Tests that compute for long, a goroutine at a time: the race detector would multiply their time.
LONG    := ^Test(Quota_SeparateOnExhaustion|Consumers_RepeatedWhenChanged|SoftEviction_NextPodAfterGivingUp|Controller_TaintsThousandDeadNodesAtRate|Converter_SlimPods)$$
# Tests of memory with hundreds of MB of pods: likewise.
BULK    := ^TestPods_(LargePodsCostNoMemory|ShortensWideActivePods|BoundsManyWideActivePods|ManySmallPartsCostNoMemory)$$
# Packages that speak to the real components, under the race detector.
EDGE    := ./internal/nodestatus ./internal/kube/client ./internal/evict/podstatus ./stats ./internal/gc ./internal/cri
# What is tried on whole clusters, and the programs before a real API server: what
# takes longest first, since they are tried ABREAST.
CLUSTER := ./test/e2e ./test/e2e/failover ./test/integration/chart ./test/harness/cluster ./test/e2e/image ./agent/app ./lifecycle/app ./test/integration/rbac ./test/harness/hollow ./test/harness/recorder
# A whole node: its hogs race the agent in earnest, so that only the one in a virtual machine is beside it.
WHOLE   := ./test/e2e/whole
# How many packages that mostly wait for real components are tried at a time.
ABREAST ?= 2

# What images are made of, and for.
IMAGE    ?= registry.plimsoll.dev/plimsoll
ARCHS    ?= amd64 arm64
# What the client is built for.
CLIENTS  ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
REVISION ?= $(shell git rev-parse HEAD 2>/dev/null)
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)

# Version and commit are what the linker sets.
LDFLAGS = -s -w -X main.version=$(VERSION) -X main.commit=$(REVISION)

# KEY is a PEM file with the key that signs a release, PUBLIC_KEY the one that verifies it. CHART is the name of the
# chart in a registry, TAG the tag of the commit once it has one, BUILDER the URI of a workflow that builds. A tag can
# have any character of the shell: recipes read TAG and BUILDER from the environment only.
KEY        ?=
PUBLIC_KEY ?= plimsoll.pub
CHART      ?= registry.plimsoll.dev/charts/plimsoll
TAG        ?=
BUILDER    ?=
export TAG BUILDER
RELEASE     = $(GO) -C deploy/release run .

FUZZTIME ?= 2m
RATE     ?= 40MiB
LIMIT    ?= 512MiB
RUNS     ?= 10

.PHONY: help build clients image components $(SUPPORTED:%=components-%) compat demo pictures check test test-unit test-race test-kernel test-v2 test-edge test-cluster e2e test-node-v2 e2e-v2 test-pages node-e2e lint bench bench-pressure bench-reaction node-pressure-bench node-pressure-bench-vm node-pressure-pages bench-evictions bench-footprint bench-lifecycle trial-upgrade trial-oncall trial-report trial-failover fuzz vuln docs manifests clean

help: ## list the targets
	@grep -hE '^[a-z0-9.-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

# Git is not asked by the builds, only above: root builds from another user's checkout too, and
# a tree without Git gives the same image.
build: ## build bin/plimsoll, one static binary
	$(GO) build -buildvcs=false -ldflags '$(LDFLAGS)' -o bin/plimsoll ./cmd/plimsoll

clients: ## write bin/clients: kubectl-plimsoll for CLIENTS
	for platform in $(CLIENTS); do \
	  os=$${platform%/*}; arch=$${platform#*/}; \
	  GOOS=$$os GOARCH=$$arch $(GO) build -buildvcs=false -ldflags '-s -w -X main.version=$(VERSION) -X main.commit=$(REVISION)' \
	    -o bin/clients/kubectl-plimsoll-$$os-$$arch$$(test $$os != windows || echo .exe) ./cmd/kubectl-plimsoll || exit 1; \
	done

image: ## write bin/image: a reproducible image for ARCHS, its digest, what it is made of
	rm -rf bin/image
	for arch in $(ARCHS); do \
	  GOOS=linux GOARCH=$$arch $(GO) build -buildvcs=false \
	    -ldflags '$(LDFLAGS)' -o bin/image/binaries/$$arch ./cmd/plimsoll || exit 1; \
	done
	$(RELEASE) notice -out ../../bin/image/NOTICE
	SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH) $(GO) -C deploy/image run . -name $(IMAGE) -version $(VERSION) -revision '$(REVISION)' \
	  -licence ../../LICENSE -licence ../../bin/image/NOTICE \
	  -out ../../bin/image $(foreach arch,$(ARCHS),$(arch)=../../bin/image/binaries/$(arch))
	@echo "push: skopeo copy --all oci-archive:bin/image/plimsoll.tar docker://$(IMAGE):$(VERSION)"
	@echo "load: ctr --namespace k8s.io images import bin/image/plimsoll.tar    (on a node), or: kind load image-archive bin/image/plimsoll.tar"
	@echo "use:  helm install plimsoll deploy/helm/plimsoll --namespace plimsoll-system --create-namespace --set image.repository=$(IMAGE) --set image.tag=$(VERSION)"

# A release is built from a commit, so that others can build it again. The programs, their systems and the
# files of a release are in deploy/release.
.PHONY: release release-build release-check release-sign release-verify release-again release-compare release-try publish

release: ## set VERSION and its section of the changelog; once that is committed, build bin/release, signed with KEY
	@$(RELEASE) set -version $(VERSION) -date $$(date -u +%Y-%m-%d)
	@$(MAKE) --no-print-directory release-build VERSION=$(VERSION)
	@$(if $(KEY),$(MAKE) --no-print-directory release-sign,echo "bin/release is not signed: make release-sign KEY=FILE signs it")

release-build: ## build bin/release: programs, image, chart, their parts, checksums and provenance
	@changes=$$(git status --porcelain) && test -z "$$changes" || { echo "$$changes"; \
	  echo "make release: there are changes that are not committed: review them, commit them, and run make release VERSION=$(VERSION) again"; exit 1; }
	rm -rf bin/release
	@SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH) $(RELEASE) build -version $(VERSION) -tag "$$TAG" -revision '$(REVISION)' \
	  -image $(IMAGE) -chart $(CHART) -builder "$$BUILDER" -ldflags '$(LDFLAGS)' -out ../../bin/release

# A file that is not listed would be neither compared nor signed.
release-check: ## compare bin/release with its checksums
	@cd bin/release && sha256sum --check --strict --quiet checksums.txt
	@cd bin/release && more=$$(ls -A | awk 'NR == FNR { listed[substr($$0, 67)]; next } !($$0 in listed) && !/^checksums\.txt(\.sig)?$$/' checksums.txt -) && \
	  test -z "$$more" || { echo "make $@: not in bin/release/checksums.txt: $$more"; exit 1; }

# The programs that run with the key in their environment are the machine's own: no code of a module does.
release-sign: release-check ## sign the checksums of bin/release with the PEM file KEY, or with the key in the variable RELEASE_KEY
	@test -n '$(KEY)' || test -n "$$RELEASE_KEY" || { echo "make $@: there is no key: set KEY=FILE, or the variable RELEASE_KEY"; exit 1; }
	@if test -n '$(KEY)'; then cat '$(KEY)'; else printf '%s\n' "$$RELEASE_KEY"; fi | \
	  openssl dgst -sha256 -sign /dev/stdin -out bin/release/checksums.txt.sig bin/release/checksums.txt

release-verify: release-check ## verify the signature of bin/release with PUBLIC_KEY, and its checksums
	openssl dgst -sha256 -verify '$(PUBLIC_KEY)' -signature bin/release/checksums.txt.sig bin/release/checksums.txt

release-again: ## build the release of this commit again, in a clone elsewhere, and compare it with bin/release
	@set -e; clone=$$(mktemp -d); trap 'rm -rf "$$clone"' EXIT; \
	  git clone --quiet --no-hardlinks . "$$clone"; \
	  $(MAKE) --no-print-directory -C "$$clone" release-build VERSION=$(VERSION); \
	  $(MAKE) --no-print-directory release-compare AGAIN="$$clone/bin/release"

release-compare: ## compare bin/release with AGAIN, a directory with the same release; the signature is left out
	diff -r -x checksums.txt.sig bin/release $(AGAIN)

release-try: components ## install bin/release on a whole node, and evict a pod by memory there (root)
	RELEASE=$(abspath bin/release) $(GO) test -count=1 -v -timeout 30m -run 'TestNode_RunsScenariosInOrder/^memory$$' $(WHOLE)

# The chart is no image: skopeo copies it as it is. --preserve-digests: what was signed is what is pushed. Credentials are
# those of skopeo login, or REGISTRY_USER with REGISTRY_PASSWORD.
publish: $(if $(UNSIGNED),release-check,release-verify) ## push image and chart of bin/release, and draft a release on GitHub (skopeo, gh); UNSIGNED=yes without a signature
	@test -z "$$REGISTRY_USER" || printf %s "$$REGISTRY_PASSWORD" | skopeo login --username "$$REGISTRY_USER" --password-stdin $(firstword $(subst /, ,$(IMAGE)))
	cd bin/release && while read -r archive reference; do \
	  skopeo copy --all --preserve-digests "oci-archive:$$archive" "docker://$${reference%%@*}" || exit 1; \
	done < images.txt
	cd bin/release && { $(if $(UNSIGNED),echo '**This release is not signed.**'; echo;) cat notes.md; } | \
	  gh release create v$(VERSION) --draft --verify-tag --title v$(VERSION) --notes-file - \
	  checksums.txt $(if $(UNSIGNED),,checksums.txt.sig) $$(cut -c67- checksums.txt)

components: ## build the real components that tests use: once, cached by version (about 10 minutes)
	$(GO) -C test/harness/components run . -o ../../../bin/components

# Components with another release of Kubernetes; COMPONENTS=components-1.36 makes tests use them.
SUPPORTED := 1.34 1.35 1.36 1.37
$(SUPPORTED:%=components-%): components-%:
	$(GO) -C test/harness/components run . -kubernetes $* -o ../../../bin/components-$*

# What depends on the release: policies, status of evicted pods, conditions, and the scenarios of
# memory and disk on a whole node. CONTAINERD has the name of a directory test/harness/components/containerd-*,
# or is debian: the package of this machine's Debian.
KUBERNETES ?= 1.36
CONTAINERD ?=
COMPAT_SET  = components-$(KUBERNETES)$(CONTAINERD:%=-containerd-%)
COMPAT      = COMPONENTS=$(COMPAT_SET) $(GO) test -count=1 -timeout 30m
compat: build $(if $(filter debian,$(CONTAINERD)),bin/debian-containerd) ## what depends on the release of Kubernetes and containerd, with KUBERNETES=1.34, 1.35, 1.36 or 1.37, CONTAINERD=1.7 or debian (root, about 15 minutes)
	$(GO) -C test/harness/components run . -kubernetes $(KUBERNETES) $(if $(CONTAINERD),-containerd $(if $(filter debian,$(CONTAINERD)),../../../bin/debian-containerd/usr/bin,$(CONTAINERD))) -o ../../../bin/$(COMPAT_SET)
	$(COMPAT) ./internal/evict/podstatus ./test/integration/rbac
	$(COMPAT) -run 'TestEvict_BesideKubelet|TestConditions' ./test/e2e
	$(COMPAT) -run 'TestNode_RunsScenariosInOrder/^(memory|memory_by_priority|disk|disk_by_priority)$$' $(WHOLE)

bin/debian-containerd:
	rm -rf $@.part && mkdir -p $@.part
	cd $@.part && { apt-get download containerd || { apt-get update && apt-get download containerd; }; } && dpkg-deb -x containerd_*.deb .
	mv $@.part $@

demo: ## show an eviction on this machine (root; RATE=40MiB LIMIT=512MiB)
	@$(MAKE) -s build
	@$(GO) build -buildvcs=false -o bin/demo ./test/demo
	@bin/demo -plimsoll bin/plimsoll -rate $(RATE) -limit $(LIMIT)

pictures: build ## write docs/demo.svg and docs/replay*.svg from runs of the demo, the charts of the raw tables, and docs/helps.svg from a simulation (root; RATE=40MiB LIMIT=512MiB)
	$(GO) build -o bin/demo ./test/demo
	$(GO) build -o bin/picture ./test/demo/picture
	bin/demo -plimsoll bin/plimsoll -rate $(RATE) -limit $(LIMIT) -color always > bin/demo.ansi
	bin/picture -in bin/demo.ansi -out docs/demo.svg -command 'make demo' -title 'A pod leaks, Plimsoll evicts it'
	rm -rf bin/demo-recording
	bin/demo -plimsoll bin/plimsoll -rate 20MiB -period 1s -recording bin/demo-recording > /dev/null
	bin/plimsoll simulate --recording bin/demo-recording > bin/replay.txt
	bin/picture -in bin/replay.txt -out docs/replay.svg -command 'plimsoll simulate --recording incident.recording' -title 'A recording of make demo, repeated'
	bin/plimsoll simulate --recording bin/demo-recording --config examples/recordings/higher-soft-threshold.yaml > bin/replay.txt
	sed -i '/^Known/,$$d' bin/replay.txt
	bin/picture -in bin/replay.txt -out docs/replay-soft.svg -command 'plimsoll simulate --recording incident.recording --config higher-soft-threshold.yaml' -title 'The same recording with a higher soft threshold'
	$(GO) -C test/bench/plot run . -tables ../../../docs/internals/measurements.md -out ../../../docs
	$(GO) run ./test/demo/incident -scenario examples/scenarios/helps-host-path-writer.yaml -out docs/helps.svg

check: ## the inner loop: gofmt, vet, what needs no root; less than 3 minutes once it is compiled
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "not gofmt-clean: $$unformatted"; exit 1; }
	$(GO) vet ./...
	$(MAKE) test-unit

# The virtual machine computes on one processor while the kernel tests mostly wait, and so do
# those that speak to components. So do both whole nodes.
test: test-unit components build ## everything, cheap first; from the kernel tests on as root
	$(MAKE) -j $(ABREAST) -O -o components -o build test-v2 test-kernel test-race test-edge
	$(MAKE) -o components -o build test-cluster
	$(MAKE) -j $(ABREAST) -O -o components -o build test-node-v2 e2e

test-unit: ## what needs no root: decisions, scenarios, configuration, architecture
	@$(COMPILE) $(shell $(GO) list -f '{{if and .GoFiles (ne .Name "main")}}{{.ImportPath}}{{end}}' ./...)
	$(GO) test $(filter-out $(patsubst ./%,plimsoll.dev/plimsoll/%,$(KERNEL) $(EDGE) $(CLUSTER) $(WHOLE)),$(shell $(GO) list ./...))
	$(GO) -C test/harness/components test .
	$(GO) -C test/bench/plot test .
	$(GO) -C test/bench/nodepressure test $(filter-out $(NPB_KERNEL),$(NPB_ALL))
	$(GO) -C deploy test ./...

test-race: ## the packages with goroutines, under the race detector
	@CGO_ENABLED=1 $(COMPILE) -race $(RACE)
	CGO_ENABLED=1 $(GO) test -race -vet=off -timeout 20m -skip '$(LONG)' $(RACE)

test-kernel: ## the packages that press on the real kernel (root)
	$(GO) test -p 1 -timeout 15m $(KERNEL)
	$(GO) -C test/bench/nodepressure test -p 1 -timeout 5m $(NPB_KERNEL)

# The Debian suite of a machine's kernel, such as bullseye for Linux 5.10, without cgroup.kill and
# process_mrelease. The default is in test/harness/vm.
KERNEL_SUITE   ?=
KERNEL_FLAG  = $(if $(KERNEL_SUITE),-kernel $(KERNEL_SUITE))

test-v2: build ## the kernel tests of every package under cgroup v2, in a virtual machine (root; KERNEL_SUITE=bullseye for Linux 5.10)
	$(GO) run ./test/harness/vm test $(KERNEL_FLAG) $(V2)
	$(GO) -C test/bench/nodepressure test -c -o ../../../bin/npb-referee.test ./referee
	$(GO) run ./test/harness/vm run $(KERNEL_FLAG) -env CI=true -- bin/npb-referee.test -test.timeout 5m

test-edge: components ## the packages that speak to real components (root)
	@CGO_ENABLED=1 $(COMPILE) -race $(EDGE)
	CGO_ENABLED=1 $(GO) test -race -vet=off -p $(ABREAST) -timeout 15m -skip '$(BULK)' $(EDGE)
	$(GO) test -run '$(BULK)' ./internal/kube/client

test-cluster: components build ## the agent on real nodes, and the controller on a real API server (root)
	$(GO) test -p $(ABREAST) -parallel $$((2 * $(ABREAST))) -timeout 30m $(CLUSTER)

# A whole node with systemd and cgroup v2 alone. Scenarios that follow on each other run in one
# machine. The node has kubeadm's layout, or another one (LAYOUT).
NODE_V2      = $(GO) run ./test/harness/vm node $(KERNEL_FLAG) -limit $(1) $(2) ./test/e2e/whole
V2_SCENARIOS ?= memory|PIDs_by_priority|disk

test-node-v2: components build ## V2_SCENARIOS on a whole node with systemd and cgroup v2, in a virtual machine (root)
	$(call NODE_V2,30m) -test.run 'TestNode_RunsScenariosInOrder/^($(V2_SCENARIOS))$$'

# What every scenario printed is kept in a document.
TRANSCRIPT    = docs/internals/whole-node-transcript.md
NODE_V2_KEPT  = $(call NODE_V2,$(1),$(2)) -test.v -test.run $(3) | $(GO) tool test2json -t | $(GO) run ./test/e2e/transcript -out $(TRANSCRIPT)
SCENARIOS     = 'TestNode_RunsScenariosInOrder$(if $(1),/^($(1))$$)'
KINDS         = 'TestNode_EndsEveryKindOfHog'
e2e-v2: SHELL := bash -o pipefail
e2e-v2: components build ## every scenario on a whole node with systemd and cgroup v2, as kubeadm and kind make it, some as k3s does (root)
	$(call NODE_V2_KEPT,60m,,$(call SCENARIOS)) -title "Output of the scenarios of a whole node: layout of kubeadm"
	$(call NODE_V2_KEPT,60m,,$(KINDS)) -add -title "Kinds of hogs, layout of kubeadm"
	$(call NODE_V2_KEPT,60m,-env LAYOUT=kind,$(call SCENARIOS)) -add -title "Layout of kind"
	$(call NODE_V2_KEPT,60m,-env LAYOUT=kind,$(KINDS)) -add -title "Kinds of hogs, layout of kind"
	$(call NODE_V2_KEPT,20m,-env LAYOUT=k3s,$(call SCENARIOS,$(V2_SCENARIOS))) -add -title "Layout of k3s"

# The eviction specs of Kubernetes' node tests, each in a machine of its own: first the kubelet alone, then
# Plimsoll beside it. AGENT has further flags of the agent.
SPECS ?=
MODES ?= kubelet plimsoll
AGENT ?=

node-e2e: components build bin/nodee2e/busybox bin/nodee2e/pause ## Kubernetes' own eviction specs with the kubelet alone and with Plimsoll, in virtual machines (root; about 10 minutes for each spec and mode; SPECS=InodeEviction for one)
	$(GO) -C test/harness/components run . -o ../../../bin/nodee2e e2e_node.test agnhost
	$(GO) build -o bin/vm ./test/harness/vm
	$(GO) build -o bin/nodee2e/nodee2e ./test/harness/nodee2e
	for mode in $(MODES); do bin/nodee2e/nodee2e suite -mode $$mode $(foreach flag,$(AGENT),-agent $(flag)) $(SPECS) || failed=1; done; test -z "$$failed"

# Unpacked, not installed: it is the program of images.
bin/nodee2e/busybox:
	mkdir -p bin/nodee2e/deb
	cd bin/nodee2e/deb && { apt-get download busybox-static || { apt-get update && apt-get download busybox-static; }; } && dpkg-deb -x busybox-static_*.deb .
	cp $$(find bin/nodee2e/deb -type f -path '*/bin/busybox') $@
	rm -r bin/nodee2e/deb

bin/nodee2e/pause:
	mkdir -p bin/nodee2e
	gcc -Os -static -o $@ $$($(GO) -C test/harness/components/e2enode list -m -f '{{.Dir}}' k8s.io/kubernetes)/build/pause/linux/pause.c

e2e: components ## Plimsoll from its chart and image on a whole node: kubelet, containerd, control plane (root)
	$(GO) test -count=1 -timeout 30m -run TestNode_RunsScenariosInOrder $(WHOLE)

test-pages: ## the pages of reports in headless Chromium, with the rules of axe-core (root, if Chromium has to be installed)
	command -v chromium google-chrome > /dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; }
	$(GO) -C test/pages test -count=1 .

lint: ## gofmt, vet for both architectures, the client for other systems, staticcheck
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "not gofmt-clean: $$unformatted"; exit 1; }
	GOARCH=amd64 $(GO) vet ./...
	GOARCH=arm64 $(GO) vet ./...
	GOOS=darwin $(GO) build -o /dev/null ./cmd/kubectl-plimsoll
	GOOS=windows $(GO) build -o /dev/null ./cmd/kubectl-plimsoll
	$(GO) -C tools tool -n staticcheck > /dev/null
	$$($(GO) -C tools tool -n staticcheck) ./...
	$(GO) -C test/bench/plot vet .
	GOARCH=amd64 $(GO) -C test/bench/nodepressure vet ./...
	GOARCH=arm64 $(GO) -C test/bench/nodepressure vet ./...
	cd test/bench/nodepressure && $$($(GO) -C ../../../tools tool -n staticcheck) ./...
	cd test/bench/plot && $$($(GO) -C ../../../tools tool -n staticcheck) .
	$(GO) -C test/pages vet .
	cd test/pages && $$($(GO) -C ../../tools tool -n staticcheck) .
	$(GO) -C deploy vet ./...
	cd deploy && $$($(GO) -C ../tools tool -n staticcheck) ./...

bench: ## Go benchmarks, allocations counted
	$(GO) test -run '^$$' -bench . -benchmem -p 1 ./eviction/signals ./eviction ./ranking ./agent ./internal/cgroup ./stats ./internal/kill ./internal/metrics ./internal/kube/client ./test/harness/trial

bench-pressure: build ## real memory pressure, false alarms and idle cost (root, about 30 minutes)
	$(GO) build -o bin/bench ./test/bench
	bin/bench -plimsoll bin/plimsoll

# Races write a line of JSON each; in the virtual machine, which has no file to
# give back, between the rows of its tables.
RACES    := bin/reaction.jsonl
RACE_VM   = bin/vm run -limit 6h -put bin/plimsoll -put bin/earlyoom $$(ldd bin/earlyoom | grep -o '/[^ ]*' | sed 's/^/-put /') $(1) \
  -- bin/bench -plimsoll bin/plimsoll -only reaction -runs $(RUNS) -rates 50,200,0 -every 1ms -out - $(2) > bin/reaction-vm.txt
RACE_KEEP = grep -v '^{' bin/reaction-vm.txt; grep '^{' bin/reaction-vm.txt >> $(RACES)

bench-reaction: build bin/earlyoom ## every mode and peer against memory that fills: the tables and both reaction.svg (root, about 3 hours; RUNS=10)
	$(GO) build -o bin/bench ./test/bench
	$(GO) build -o bin/vm ./test/harness/vm
	rm -f $(RACES)
	bin/bench -only reaction -runs $(RUNS) -rates 50,200,500,1024,2048,0 -margins 100,10 -out $(RACES)
	bin/bench -only reaction -runs $(RUNS) -rates 50,200,500,1024,2048,0 -modes adaptive,notified,loop -margins 100,10 -spinners 4,8 -out $(RACES)
	$(call RACE_VM,-m 2048,-margins 100)
	$(RACE_KEEP)
	$(call RACE_VM,-m 1024,-arena machine -margins 100)
	$(RACE_KEEP)
	$(GO) -C test/bench/plot run . -in ../../../$(RACES) -out ../../../docs/internals/reaction.svg
	$(GO) -C test/bench/plot run . -in ../../../$(RACES) -first -modes '10s=a check every 10 s,notified=Plimsoll' -out ../../../docs/reaction.svg

# Unpacked, not installed: installing starts it, and it would watch this machine.
bin/earlyoom:
	mkdir -p bin/earlyoom.deb
	cd bin/earlyoom.deb && { apt-get download earlyoom || { apt-get update && apt-get download earlyoom; }; } && dpkg-deb -x earlyoom_*.deb .
	cp bin/earlyoom.deb/usr/bin/earlyoom bin/earlyoom
	rm -r bin/earlyoom.deb

# The benchmark of node pressure. Its module imports nothing of the product, which is one contestant.
INCIDENTS   ?=
CONTESTANTS ?=
SEED        ?= 1
MACHINE     ?=
RESULTS     ?= bin/node-pressure-bench.results
node-pressure-bench-vm: MACHINE := $(or $(MACHINE),virtual machine)
NPB          = bin/node-pressure-bench run -runs $(RUNS) -seed $(SEED) -incidents '$(INCIDENTS)' -contestants '$(CONTESTANTS)' -machine '$(MACHINE)'
NPB_REPORT   = bin/node-pressure-bench report -in $(RESULTS) -html $(RESULTS)/report.html -markdown $(RESULTS)/report.md -picture $(RESULTS)/report.svg
# The virtual machine has the peers and the real programs of the incidents from Debian. Each result is kept when it
# arrives, and a further start leaves out what is there.
NPB_SUITE    = bookworm
NPB_PACKAGES = earlyoom nohang oomd systemd-oomd stress-ng redis-server postgresql default-jdk-headless gcc python3
NPB_LIMIT   ?= 48h
NPB_ARENAS  ?= cgroup machine
NPB_DONE     = bin/node-pressure-bench.done
NPB_VM       = bin/node-pressure-bench done -in $(RESULTS) > $(NPB_DONE) && \
  { bin/vm run -limit $(NPB_LIMIT) -systemd -suite $(NPB_SUITE) $(addprefix -package ,$(NPB_PACKAGES)) $(1) -put bin/plimsoll -put bin/node-pressure-loop \
  -put bin/node-pressure-kubelet -put bin/components/kubelet -put $(NPB_DONE) -- $(NPB) -done $(NPB_DONE) -out - $(2); echo $$? > $(NPB_DONE).status; } | \
  bin/node-pressure-bench collect -out $(RESULTS) && grep -qx 0 $(NPB_DONE).status

node-pressure-bench: build bin/node-pressure-bench bin/node-pressure-loop ## contestants against incidents, each node a cgroup of this machine: results, page and table (root; RUNS=10 INCIDENTS=dips,one-malloc CONTESTANTS=kernel,plimsoll)
	status=0; $(NPB) -continue -out $(RESULTS) || status=$$?; $(NPB_REPORT) && exit $$status

node-pressure-bench-vm: build components bin/node-pressure-bench bin/node-pressure-loop bin/node-pressure-kubelet ## the same with cgroup v2 in virtual machines: nodes are cgroups of one, and then the other is the node (root on Debian or Ubuntu)
	$(GO) build -o bin/vm ./test/harness/vm
	status=0; \
	$(if $(filter cgroup,$(NPB_ARENAS)),{ $(call NPB_VM,-m 2560,); } || status=1;) \
	$(if $(filter machine,$(NPB_ARENAS)),{ $(call NPB_VM,-m 1280,-arena machine); } || status=1;) \
	$(NPB_REPORT) && exit $$status

node-pressure-pages: bin/node-pressure-bench ## write the published table and picture of the benchmark from the published results
	bin/node-pressure-bench report -in test/bench/nodepressure/results -again test/bench/nodepressure/results-again -horizon plimsoll=500ms -markdown docs/internals/node-pressure-results.md -picture docs/node-pressure.svg

.PHONY: bin/node-pressure-bench bin/node-pressure-loop bin/node-pressure-kubelet
bin/node-pressure-bench:
	$(GO) -C test/bench/nodepressure build -buildvcs=false -ldflags '-s -w -X main.revision=$(REVISION)$(if $(shell git status --porcelain test/bench/nodepressure 2>/dev/null),-dirty)' -o ../../../bin/node-pressure-bench .
bin/node-pressure-loop:
	$(GO) -C test/bench/nodepressure build -buildvcs=false -ldflags '-s -w' -o ../../../bin/node-pressure-loop ./loop
bin/node-pressure-kubelet:
	$(GO) build -buildvcs=false -ldflags '-s -w' -o bin/node-pressure-kubelet ./test/bench/barekubelet

EVICTIONS ?= 500
POLICIES  ?= mutating validating none

bench-evictions: components build ## EVICTIONS beside a real kubelet, each watched for 60 s, with every one of POLICIES (root, about an hour)
	EVICTIONS=$(EVICTIONS) POLICIES="$(POLICIES)" $(GO) test -count=1 -v -timeout 120m -run TestEvict_BesideKubelet ./test/e2e

bench-footprint: components ## what agent and controller cost as pods, idle and under pressure (root, about 25 minutes)
	$(GO) test -run '^$$' -bench Footprint -benchtime 1x -timeout 60m $(WHOLE)

REPEAT ?= 20
trial-upgrade: components ## the chart upgraded and rolled back on a whole node while memory grows, REPEAT rollouts (root, about 20 minutes)
	REPEAT=$(REPEAT) $(GO) test -count=1 -v -timeout 60m -run TestNode_UpgradesWhileMemoryGrows $(WHOLE)

DURATION ?= 1h
trial-report: components ## the report of a trial in bin/trial-report: DURATION (1h, at most 5h) of workloads close to the limit, a kubelet that evicts, a disarmed agent, and an independent count (root)
	rm -rf bin/trial-report
	DURATION=$(DURATION) DIR=$(abspath bin/trial-report) $(GO) test -count=1 -v -timeout 6h -run TestNode_ReportsTrial $(WHOLE)

trial-oncall: components ## a whole node with PROBLEM, left to a person with the client and the kubeconfig in DIR until DIR has a file named done (root)
	PROBLEM=$(PROBLEM) DIR=$(abspath $(or $(DIR),bin/oncall)) $(GO) test -count=1 -v -timeout 150m -run TestNode_HasProblem $(WHOLE)

bench-lifecycle: ## the controller beside Kubernetes' own at 1 000 to 15 000 nodes, and alone at 150 000 (about 2 hours; 12 GiB)
	$(GO) -C test/harness/upstream build -o ../../../bin/upstream .
	$(GO) build -o bin/bench-lifecycle ./test/bench/lifecycle
	bin/bench-lifecycle -upstream bin/upstream -out bin/lifecycle.jsonl

trial-failover: components ## 100 leaders killed at every stage, an API server that stands still for a minute (root, about 15 minutes; SEED=n repeats one)
	KILLS=100 PAUSE=60s $(GO) test -count=1 -v -timeout 45m ./test/e2e/failover

fuzz: ## every fuzz target for FUZZTIME
	@for module in . test/bench/nodepressure; do \
	  for package in $$($(GO) -C $$module list ./...); do \
	    for target in $$($(GO) -C $$module test -list '^Fuzz' $$package | grep '^Fuzz'); do \
	      echo "$$package $$target"; \
	      $(GO) -C $$module test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x $$package || exit 1; \
	    done; \
	  done; \
	done

vuln: ## govulncheck, for those who reach its database
	$$($(GO) -C tools tool -n govulncheck) ./...

docs: ## write the generated parts of docs/
	$(GO) test ./test ./cmd/plimsoll ./cmd/kubectl-plimsoll ./internal/metrics ./internal/doctor -run TestReference -update

manifests: bin/components/helm ## write what is made from the chart, and what the chart takes from deploy/ and from the options
	$(GO) test ./test/integration/chart -run TestGenerated -count=1 -update

bin/components/helm:
	$(GO) -C test/harness/components run . -o ../../../bin/components helm

clean: ## remove what was built
	rm -rf bin
