# Two commands on a machine that has Python 3.11 or newer, git and make: `make run` and `make test`.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: run test lint types unit docs extras other_machine browser pipeline postgresql packaging wheel clean

run: .venv/.installed
	$(BIN)/precreg run

test: .venv/.installed-dev lint types unit docs extras other_machine browser pipeline postgresql packaging

lint: .venv/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.installed-dev
	$(BIN)/mypy

# The command is started some thousand times; where Python may write no bytecode, each start would compile it anew.
# pytest writes bytecode for the same reason: it rewrites the asserts of 700 modules.
# Workers begin with halves of the tests and steal: what the tests of a file share is then mostly made once.
unit: .venv/.installed-dev
	@$(BIN)/python -m compileall -q precreg
	PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n 2 --dist worksteal tests $(addprefix --ignore=tests/,extras other_machine browser pipeline postgresql packaging)

# The site in site/. A link or an anchor that leads nowhere, or a page outside the navigation, fails the build.
docs: .venv/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Subjects of torch and ONNX run in an environment of their own: all other steps show that precreg needs neither. In CI it
# must be there; elsewhere it is said when it is not.
EXTRAS ?= .venv-extras
extras: .venv/.installed-dev
	@if sh .ci/extras $(PYTHON) $(EXTRAS); then $(EXTRAS)/bin/pytest -n 2 --dist worksteal tests/extras; \
	elif [ -n "$$CI" ]; then echo "no torch, onnx, onnxruntime or pyarrow: tests/extras cannot run" >&2; exit 1; \
	else echo "SKIPPED tests/extras: pip could not install the extras torch, onnx, parquet and dask"; fi

# Each shipped suite is judged on another machine than that of its baselines: two versions run side by side for each.
other_machine: .venv/.installed-dev
	$(BIN)/pytest -n 2 tests/other_machine

# A real browser opens the pages, and axe-core checks them. CI needs them; elsewhere make prints that they are missing.
browser: .venv/.installed-dev
	@if sh .ci/browser; then $(BIN)/pytest -n 2 tests/browser; \
	elif [ -n "$$CI" ]; then echo "no chromium, chromedriver or axe-core: tests/browser cannot run" >&2; exit 1; \
	else echo "SKIPPED tests/browser: install chromium, chromedriver and npm, or run this as root on Debian"; fi

# .gitlab-ci.yml runs for real, without GitLab. In CI what that takes must be there; elsewhere it is said when it is not.
pipeline: .venv/.installed-dev
	@if sh .ci/pipeline; then $(BIN)/pytest -n 2 tests/pipeline; \
	elif [ -n "$$CI" ]; then echo "no rsync, Node.js or gitlab-ci-local: tests/pipeline cannot run" >&2; exit 1; \
	else echo "SKIPPED tests/pipeline: install rsync, Node.js and npm, or run this as root on Debian"; fi

# Histories are kept on a real server. In CI it must be there; elsewhere it is said when it is not.
postgresql: .venv/.installed-dev
	@if sh .ci/postgresql; then $(BIN)/pytest tests/postgresql; \
	elif [ -n "$$CI" ]; then echo "no PostgreSQL server: tests/postgresql cannot run" >&2; exit 1; \
	else echo "SKIPPED tests/postgresql: install PostgreSQL, or run this as root on Debian"; fi

# The sdist and the wheel are installed where there is no compiler. The wheel itself needs one: CI fails without it.
packaging: .venv/.installed-dev
	@if $(HAS_CORES); then $(MAKE) --no-print-directory wheel && $(BIN)/pytest -n 2 --dist loadfile tests/packaging; \
	elif [ -n "$$CI" ]; then echo "no C++ compiler: tests/packaging cannot run" >&2; exit 1; \
	else echo "SKIPPED tests/packaging: install a C++ compiler, then run make clean"; fi

# The sdist and the wheel for this machine, in dist/. auditwheel writes the oldest glibc that serves into its name.
wheel: .venv/.installed-dev
	rm -rf dist
	$(BIN)/python -m build --quiet --outdir dist
	if [ "$$(uname)" = Linux ]; then \
		PATH="$(BIN):$$PATH" auditwheel repair --wheel-dir dist dist/*-linux_*.whl && rm dist/*-linux_*.whl; fi

.venv/.python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "precreg needs Python 3.11 or newer: make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv
	touch $@

# A change of a C++ source compiles the cores again. Without a compiler numpy does their work.
SOURCES := $(wildcard precreg/*/*.?pp precreg/*/*/*.?pp)
HAS_CORES := ls precreg/*/_core.*.so >/dev/null 2>&1
.venv/.installed: .venv/.python pyproject.toml setup.py constraints.txt $(SOURCES)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@$(HAS_CORES) || echo "no C++ compiler: precreg computes with numpy, more slowly"
	touch $@

.venv/.installed-dev: .venv/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

.venv/.installed-docs: .venv/.installed-dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	touch $@

clean:
	rm -rf .venv .venv-extras reports site build dist precreg.egg-info precreg/*/_core.*.so
