# A fresh clone needs nothing but make, npm and Go: Node 24 itself comes with the packages, whatever Node runs npm.
NODE := node_modules/.bin/node
INSTALLED := node_modules/.package-lock.json

# Given on the command line or in the environment. Recipes are single commands without a shell, which would swallow
# the signals that are meant for them.
export ONCE PROVIDER SAMPLE TLS BASE KEY URL REMOVE CLUSTER

.DEFAULT_GOAL := help
.PHONY: help up test check nightly e2e bench release clean

help: ## Show the targets.
	@sed -n 's/^\([a-z0-9]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST)

up: $(INSTALLED) ## Start the local stack and its sample. ONCE=1 stops when the sample answers, SAMPLE=0 leaves it out, TLS=1 is HTTPS and kubectl by a login, PROVIDER=dex has the people of Dex.
	@$(NODE) hack/up.ts

test: $(INSTALLED) ## Run everything that CI runs.
	@$(NODE) hack/test.ts

check: $(INSTALLED) ## Run the part of the tests that needs neither engine nor cluster.
	@$(NODE) hack/check.ts

nightly: $(INSTALLED) ## Run what is too long for every change: more seeds, longer faults, all benchmarks.
	@$(NODE) hack/nightly.ts

e2e: $(INSTALLED) ## Run the stories of the chart on your cluster: KUBECONFIG=<file> IMAGE=<repository:tag>; or CLUSTER=k3s, CLUSTER=kind.
	@$(NODE) hack/cluster/main.ts

bench: $(INSTALLED) ## Run the benchmarks; writes a table and a JSON file.
	@$(NODE) bench/main.ts

release: $(INSTALLED) ## Leave in dist/ what people install: images, packages, chart, plugin, checksums.
	@$(NODE) hack/package/main.ts

clean: $(INSTALLED) ## Stop what is left of the local stack and remove its data.
	@$(NODE) hack/clean.ts

$(INSTALLED): package-lock.json
	npm ci
	@touch $@
