# Every way to build and test gscd. `make ci` is what a change must pass.

GO       ?= go
PKG      ?= ./...
ARGS     ?=
TIME     ?= 10m
BIN      := bin/gscd
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null)
PGO      := cmd/gscd/gscd.pgo
LDFLAGS  := $(if $(VERSION),-X main.release=$(VERSION))

.PHONY: all build man reference test race bench pgo lint fmt integration fuzz kube sbom nightly licences ci clean

all: build

build: ## the binary, with DuckDB (needs a C compiler)
	$(GO) build -trimpath -pgo=$(PGO) -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/gscd

man: ## man pages below build/man, one a command
	SOURCE_DATE_EPOCH=$(or $(SOURCE_DATE_EPOCH),$(shell git log -1 --format=%ct 2>/dev/null),0) $(GO) test ./cmd/gscd -count 1 -run 'TestManPages$$' -args -man=$(CURDIR)/build/man

reference: ## docs/reference and docs/metrics.md, written anew from the code
	$(GO) test ./config -run 'TestReferencePage$$' -args -rewrite
	$(GO) test ./cmd/gscd -run 'TestReferencePages$$' -args -rewrite
	$(GO) test ./server -run 'TestMetricsPage$$' -args -rewrite

test: ## all tests that need no server
	$(GO) test $(PKG)

licences: ## docs/licences.md from the modules that are linked in
	$(GO) test -count 1 ./integration -run 'TestLicences$$' -args -rewrite-licences

race: ## the same under the race detector
	$(GO) test -race $(PKG)

bench: ## the benchmarks beside the code; PKG=./delta/parquet for one package
	$(GO) test -run '^$$' -bench . -benchmem $(PKG)

# TestProfile of three sizes: rows of the table, records a batch, events.
pgo: ## the profile that `make build` gives the compiler, made anew (docs/profiles.md)
	dir=$$(mktemp -d); for size in 0,100000,800000 1000000,10000,500000 1000000,100000,800000; do \
	  mkdir $$dir/$$size; set -- $$(echo $$size | tr , ' '); \
	  $(GO) test ./bench -run 'TestProfile$$' -count 1 -v -args -profile.rows=$$1 -profile.batch=$$2 -profile.events=$$3 -profile.dir=$$dir/$$size || exit 1; \
	done; $(GO) tool pprof -proto $$dir/*/cpu.pprof > $(PGO); rm -r $$dir

lint: ## gofumpt, vet and the rules in .golangci.yml
	golangci-lint run $(PKG)

fmt: ## rewrite the files as lint wants them
	golangci-lint fmt

integration: ## tests with real servers and other engines, which it installs below build/
	integration/engines/install.sh build/integration
	$(GO) test $(ARGS) -tags integration -timeout 50m -parallel 5 $(if $(SKIP),-skip '$(SKIP)') ./integration/...

# A number of runs (TIME=5000x) ends exactly; at the end of a time `go test -fuzz` may fail with a
# bare "context deadline exceeded" that no input has caused (golang.org/issue/75804).
fuzz: ## every fuzz test for TIME each: 10 minutes, a night for all; TIME=5000x PKG=./ingest/decode for a look
	@for pkg in $$($(GO) list $(PKG)); do \
	  for f in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
	    echo "$$pkg $$f"; \
	    $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(TIME) $$pkg || exit 1; \
	  done; \
	done

kube: ## the chart and manifests against a real kube-apiserver, which is built below build/kube where it is not there
	deploy/kube/build.sh build/kube
	cd deploy/validate && $(GO) vet -tags kube ./... && $(GO) test $(ARGS) -tags kube ./apiserver

SBOM_TOOL := github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.9.0

sbom: ## the modules in the slim and the full binary, as CycloneDX, below build/sbom
	mkdir -p build/sbom
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w $(LDFLAGS)' -o build/sbom/gscd-slim ./cmd/gscd
	CGO_ENABLED=1 $(GO) build -trimpath -ldflags '-s -w $(LDFLAGS)' -o build/sbom/gscd-full ./cmd/gscd
	for image in slim full; do \
	  GOFLAGS= $(GO) run $(SBOM_TOOL) bin -json -noserial $(if $(VERSION),-version $(VERSION)) -output build/sbom/gscd-$$image.cdx.json build/sbom/gscd-$$image || exit 1; \
	  deploy/image/checksbom.sh build/sbom/gscd-$$image build/sbom/gscd-$$image.cdx.json $(VERSION) || exit 1; \
	done

# Seeds of their own each night; a failure prints its seed and how to run it again.
SEED := $(or $(SEED),$(shell date +%s))

.PHONY: nightly-simulator nightly-planted nightly-longhaul nightly-calls nightly-servers

nightly: nightly-simulator nightly-planted nightly-longhaul nightly-calls nightly-servers ## what takes hours, all of it

nightly-simulator: ## 10,000 simulated runs of the pipeline from seeds that were not tried before
	$(GO) test ./ingest -run 'TestModel$$' -timeout 3h -v -model.seed=$(SEED)0000 -model.runs=10000

nightly-planted: ## every planted fault found again, and the oracle
	$(GO) test ./ingest -run 'TestPlantedFaults$$|TestModelAgainstOracle$$' -timeout 2h -v -model.planted=-1 -model.oracle=5000

nightly-longhaul: ## two years of a commit a minute
	$(GO) test ./ingest -run 'TestLongHaul$$' -timeout 3h -v -longhaul.days=695

nightly-calls: ## each call of each command failed
	$(GO) test ./cmd/gscd -run 'TestEvery(Call|Request)OfCommands$$' -timeout 1h -v -everycall

nightly-servers: ## 100 kills between real servers
	integration/engines/install.sh build/integration
	GSCD_KILLS=100 GSCD_SOAK=3m $(GO) test -tags integration -timeout 3h -parallel 4 -v -run 'TestProof|TestKafka' ./integration

ci: ## what a change must pass, from nothing
	.ci/run

clean:
	rm -rf bin build
