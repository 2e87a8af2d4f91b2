# Every task a developer runs. Set-up happens by itself: a fresh machine needs Python 3.11 or newer and make.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
BROWSER := .venv/browser
ASSETS = $$($(PYTHON) controlplane/build.py)
# Tests start hundreds of interpreters: also where compiled files are not wanted beside the sources, they are kept.
COMPILED = PYTHONDONTWRITEBYTECODE= PYTHONPYCACHEPREFIX=$(CURDIR)/.venv/pycache
# They start hundreds of Go programs, too, of which most end within seconds: memory costs less than to collect it. And
# as tests run on all cores anyway, each program is cheaper on one.
FRUGAL = GOGC=200 GOMAXPROCS=1
PYTEST = KUBEBUILDER_ASSETS=$(ASSETS) && export KUBEBUILDER_ASSETS && $(COMPILED) $(FRUGAL) $(BIN)/python -m pytest -n auto
SECONDS ?= 600
ENGINE ?= podman
IMAGE ?= $(shell PYTHONPATH=src $(PYTHON) -c "from modelyard.core.image import IMAGE; print(IMAGE)")

.PHONY: up test quick soak check lint types contracts format generate docs pictures bench cluster controlplane-path wheels chart image image-name lock clean

up: $(READY) ## serve a model on this machine until Ctrl-C: the real API, pods as processes
	@exec $(BIN)/modelyard up $(ARGS)

test: check $(BROWSER) ## everything: lint, types, contracts, and all tests on a real control plane
	$(PYTEST) $(ARGS)

quick: $(READY) ## the inner loop: tests without a cluster, and one life of each kind
	$(PYTEST) -m quick $(ARGS)

soak: $(READY) ## random runs of SECONDS each, which print their SEED
	$(PYTEST) -m "soak or hypothesis" --hypothesis-profile=soak --seconds=$(SECONDS) $(if $(SEED),--seed=$(SEED)) $(ARGS)

check: $(READY) ## lint, types, import contracts, side by side
	@$(MAKE) --no-print-directory -j lint types contracts

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

contracts: $(READY)
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

generate: $(READY) ## deploy/ and tables of docs/ from the code, and what we keep of Kubernetes' own types
	$(BIN)/python -m tools.generate "$(ASSETS)"

docs: $(READY) ## the site of the documentation, in site/
	$(BIN)/python -m tools.site

pictures: $(READY) $(BROWSER) ## docs/images/up.svg and page-*.png, from real runs
	@$(PYTHON) controlplane/build.py > /dev/null
	$(BIN)/python -m tools.picture
	$(BIN)/python -m pytest -q tests/page/test_browser.py --pictures=docs/images

bench: $(READY) ## figures, each as a ratio to a floor measured in the same run
	KUBEBUILDER_ASSETS=$(ASSETS) && export KUBEBUILDER_ASSETS && $(BIN)/python -m bench $(ARGS)

cluster: $(READY) ## a control plane with one simulated node, until Ctrl-C
	@KUBEBUILDER_ASSETS=$(ASSETS) && export KUBEBUILDER_ASSETS && exec $(BIN)/python -m modelyard.local.cluster

controlplane-path: ## build the control plane if needed, and print its folder
	@$(PYTHON) controlplane/build.py

wheels: $(READY) ## dist/: Modelyard and the control plane, for `pip install 'modelyard[local]'`
	@$(BIN)/python -m tools.wheels

chart: $(READY) ## dist/modelyard-VERSION.tgz: the Helm chart
	$(BIN)/helm package charts/modelyard --destination dist

image: ## the image, with podman; ENGINE=docker is another
	$(ENGINE) build --tag $(IMAGE) --file Containerfile .

image-name: ## print what `make image` calls it
	@echo $(IMAGE)

lock: $(READY) ## renew requirements/*.lock
	$(BIN)/python tools/lock.py

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache dist site

$(READY): requirements/dev.lock pyproject.toml tools/setup.py
	@$(PYTHON) tools/setup.py
	@touch $(READY)

$(BROWSER): tools/setup.py
	@$(PYTHON) tools/setup.py browser
	@touch $(BROWSER)
