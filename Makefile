# What a contributor types. Every target is a plain command that also works
# without make; .ci/run does the same things in the same order.

.DEFAULT_GOAL := help
modules := . integration
packages := ./... ./integration/...

.PHONY: help
help: ## Print this help
	@awk 'BEGIN {FS = ":.*## "} /^[a-z\/-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## Play the demo
	go run ./cmd/reactorctl demo

.PHONY: test
test: ## Run all tests
	go test $(packages)

.PHONY: test/race
test/race: ## Run all tests with the race detector
	go test -race $(packages)

.PHONY: format
format: ## Format all Go files
	gofmt -w .

.PHONY: lint
lint: ## Check format, vet, staticcheck and go.mod files
	@test -z "$$(gofmt -l .)" || { echo "not formatted (make format):"; gofmt -l .; exit 1; }
	go vet $(packages)
	go tool staticcheck $(packages)
	@for m in $(modules); do (cd $$m && GOWORK=off go mod tidy -diff) || exit 1; done

.PHONY: vulns
vulns: ## Look for known vulnerabilities (asks vuln.go.dev)
	go tool govulncheck $(packages)

.PHONY: verify
verify: ## Everything a change must pass: what CI runs
	./.ci/run
