# The one entry for people and CI. `make` lists the targets.
SHELL := /bin/bash
export CGO_ENABLED ?= 0

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X main.version=$(VERSION)
SERVICES := loader chunker extractor resolver committer reviewer
MODULES := pkg $(addprefix services/,$(SERVICES)) cmd/factmill integration bench

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-zA-Z0-9/_-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([^:]+):.*## (.*)/  \1|\2/' | column -t -s'|'

.PHONY: build
build: ## build bin/factmill
	go build -trimpath -ldflags '$(LDFLAGS)' -o bin/factmill ./cmd/factmill

.PHONY: services
services: ## build every service as a binary of its own into bin/
	for s in $(SERVICES); do go build -trimpath -ldflags '$(LDFLAGS)' -o bin/factmill-$$s ./services/$$s/cmd/$$s || exit 1; done

.PHONY: images
images: ## build the container images, one a service and one for the command line, tagged VERSION (needs docker)
	for s in $(SERVICES); do docker build --target $$s --build-arg VERSION=$(VERSION) -t factmill-$$s:$(VERSION) . || exit 1; done
	docker build --target factmill --build-arg VERSION=$(VERSION) -t factmill:$(VERSION) .

.PHONY: demo
demo: build ## ingest the sample corpus and show what came of it
	./bin/factmill demo

.PHONY: test
test: build ## every test that needs Go alone
	go test work -timeout 14m

# The tests of the files with the build tag proof; the others are make test's.
PROOFS = ^($(shell grep -l '^//go:build proof' integration/*_test.go | xargs grep -ho '^func Test[A-Za-z]*' | sed 's/func //' | paste -sd'|'))$$

.PHONY: test/proof
test/proof: ## the crash matrix, broker faults, leases, and 10,000 documents in one job
	go test -tags proof ./integration -run '$(PROOFS)' -timeout 60m

.PHONY: real/ollama
real/ollama: ## build a real Ollama with a small model into .real/ollama (ten minutes of CPU, once)
	./make/real/ollama.sh

.PHONY: real/milvus
real/milvus: ## start a real Milvus on 127.0.0.1:19630 and run the suite of vector routes against it (root; make/real/milvus.sh down ends it)
	./make/real/milvus.sh up
	FACTMILL_REAL_MILVUS=127.0.0.1:19630 FACTMILL_REAL_MILVUS_SCRIPT=$(CURDIR)/make/real/milvus.sh go test -count 1 -v -run '^TestReal' ./services/committer/internal/vectors/milvus

.PHONY: real/febrl
real/febrl: ## fetch public record-linkage data into .real/febrl, for eval/resolution (pip; 3 MB)
	./make/real/febrl.sh

.PHONY: real/kubernetes
real/kubernetes: ## build a real Kubernetes API server with its store into .real/kubernetes (ten minutes of CPU and more, once)
	./make/real/kubernetes.sh

.PHONY: real/promtool
real/promtool: ## build Prometheus' promtool into .real/promtool (minutes of CPU, once), and check and test the alert rules with it
	./make/real/promtool.sh

.PHONY: test/real
test/real: ## the tests against real servers that make real/… set up; says which are absent
	FACTMILL_REAL_MILVUS=$${FACTMILL_REAL_MILVUS:-127.0.0.1:19630} go test -count 1 -v -run '^TestReal' ./services/committer/internal/vectors/milvus
	go test -tags real ./integration/deploy -run '^TestReal' -v -count 1 -timeout 20m
	go test -tags real ./integration -run '^TestReal' -v -timeout 180m

.PHONY: test/short
test/short: ## unit tests without the end-to-end ones
	go test -short ./pkg/... $(foreach s,$(SERVICES),./services/$(s)/...) ./cmd/factmill/...

.PHONY: test/race
test/race: ## the unit tests under the race detector (needs a C compiler)
	CGO_ENABLED=1 go test -race -timeout 40m ./pkg/... $(foreach s,$(SERVICES),./services/$(s)/...)

.PHONY: fuzz
fuzz: ## every fuzz target for a few seconds each
	./make/fuzz.sh 5s

.PHONY: lint
lint: ## gofmt and vet
	@bad=$$(gofmt -l pkg services cmd integration bench); if [ -n "$$bad" ]; then echo "not gofmt-ed: $$bad"; exit 1; fi
	go vet work

.PHONY: alone
alone: ## build every module outside the workspace
	for m in $(MODULES); do (cd $$m && GOWORK=off go build ./...) || exit 1; done

.PHONY: bench
bench: ## the benchmarks, once each
	go test -run '^$$' -bench . -benchtime 1x ./bench/...

.PHONY: bench/pipeline bench/noop bench/update bench/commit bench/resolve bench/review bench/replicas bench/memory bench/query
bench/pipeline bench/noop bench/update bench/commit bench/resolve bench/review bench/replicas bench/memory bench/query: ## one benchmark of the whole, beside its limits (figures as JSON: .bench.json)
	go run ./bench/cmd/bench -json .bench.json $(@F)

.PHONY: eval
eval: ## precision and recall of the embedded extractor: the three gold sets, the example corpus, and domains with and without rules:
	@echo "== plain prose, default schema (bench/testdata/extraction)"
	@go run ./bench/cmd/eval bench/testdata/extraction/gold.jsonl
	@echo; echo "== the same, written blind after the rules (bench/testdata/extraction-blind)"
	@go run ./bench/cmd/eval bench/testdata/extraction-blind/gold.jsonl
	@echo; echo "== the same, written blind before the rules' last version (bench/testdata/extraction-third)"
	@go run ./bench/cmd/eval bench/testdata/extraction-third/gold.jsonl
	@echo; echo "== the example corpus, its schema (examples/observatories)"
	@go run ./bench/cmd/eval -schema examples/observatories/schema.yaml -docs examples/observatories/docs examples/observatories/gold.jsonl
	@echo; echo "== the example corpus, with and without rules:"
	@go run ./bench/cmd/eval -schema examples/observatories/schema.yaml -docs examples/observatories/docs -compare examples/observatories/gold.jsonl
	@for d in bench/testdata/domain/*/; do echo; echo "== $$d, with and without rules:"; \
		go run ./bench/cmd/eval -schema $$d/schema.yaml -compare $$d/gold.jsonl || exit 1; done

.PHONY: eval/resolution
eval/resolution: ## precision and recall of linking names: the gold pairs, by method and kind, and real/febrl's records when they are there
	go run ./bench/cmd/resolution -records .real/febrl bench/testdata/resolution/pairs.jsonl

.PHONY: rights
rights: ## write deploy/nats/accounts.conf and the manifests' copy anew from pkg/bus/rights (look at the diff)
	go test ./pkg/bus/rights -run '^TestCommittedFiles$$' -rewrite -count 1

.PHONY: examples
examples: build ## write the expected graph of the examples anew (look at the diff)
	./make/examples.sh

.PHONY: ci
ci: lint alone test ## what CI runs
