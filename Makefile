# Everything a reader, an author or CI does, by name. `make help` lists it.
# Set-up is part of every target: .venv is made from the exact pins in constraints.txt and reused while they stay.

PYTHON   ?= python3
PIP_ARGS ?=
VENV     := .venv
PORT     ?= 8000
NOTEBOOKS ?= $(sort $(wildcard chapters/*.ipynb chapters/experiments/*.ipynb))

ifeq ($(OS),Windows_NT)
  BIN := $(VENV)/Scripts
  PY  := $(BIN)/python.exe
else
  BIN := $(VENV)/bin
  PY  := $(BIN)/python
endif
PIP  := $(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt $(PIP_ARGS)
PAGE := _build/html/index.html

# One BLAS thread: the notebooks' matrices are small, and the numbers do not depend on the machine's core count.
export OMP_NUM_THREADS = 1
export OPENBLAS_NUM_THREADS = 1
export PYDEVD_DISABLE_FILE_VALIDATION = 1

.DEFAULT_GOAL := help
.PHONY: help book build-html test serve execute lint format clean colab repository pins libraries \
        check-code check-package check-notebooks check-colab

help: ## list what can be made
	@echo "usage: make TARGET [PYTHON=python3.13] [PIP_ARGS='…']"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# ---------------------------------------------------------------- environment
# Made once; PYTHON= names the one to make it with. `make clean` first, to make it with another.
$(PY):
	@$(PYTHON) -c "import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else 'Python 3.11 or newer is needed, and $(PYTHON) is %d.%d. Name another: make $(MAKECMDGOALS) PYTHON=python3.12' % v[:2])"
	@echo "==> making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)
	@$(PY) -m pip install --quiet --disable-pip-version-check --upgrade "pip>=24"

$(VENV)/.book: pyproject.toml constraints.txt | $(PY)
	@echo "==> installing what the book needs (exact pins; no torch, no Node)"
	@$(PIP) -e ".[book]"
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(PY)
	@echo "==> installing what the checks need (exact pins; torch is the large one)"
	@$(PIP) -e ".[dev]"
	@touch $@ $(VENV)/.book

# ---------------------------------------------------------------- the two commands
book: $(VENV)/.book ## build the book from a clean clone and print the page to open
	@echo "==> using $(VENV), $$($(PY) --version)"
	@$(MAKE) --no-print-directory build-html
	@echo "    ('make serve' builds it and serves it at http://127.0.0.1:$(PORT)/)"
	@echo "==> the book is built. Open this page: $(CURDIR)/$(PAGE)"

build-html:
	@echo "==> building the book; a warning is an error"
	@rm -rf _build
	@$(BIN)/jupyter-book build . -W -n --keep-going --quiet

test: $(VENV)/.dev ## run every check that CI runs
	@echo "==> using $(VENV), $$($(PY) --version)"
	@$(MAKE) --no-print-directory check-code
	@$(MAKE) --no-print-directory build-html
	@$(MAKE) --no-print-directory check-package
	@$(MAKE) --no-print-directory check-notebooks
	@$(MAKE) --no-print-directory check-colab
	@echo "==> make test: every check passed$(if $(filter 1,$(SKIP_BROWSER)), but those in a browser: SKIP_BROWSER is set)"

# ---------------------------------------------------------------- the checks, one by one
check-code: $(VENV)/.dev ## lint, format and types
	@echo "==> code: ruff, mypy"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

check-package: $(VENV)/.dev ## tests of the package, the claims, the book and its pages in a browser (needs a built book)
	@echo "==> tests: package, claims, net, book, browser"
	@$(PY) -m pytest tests -n 2 --dist loadfile -q

check-notebooks: $(VENV)/.dev ## run the notebooks again and compare with their stored outputs
	@echo "==> notebooks: every stored output is computed again and compared"
	@$(PY) -m pytest --nbval --nbval-current-env --nbval-cell-timeout=60 -q chapters

check-colab: $(VENV)/.dev ## run chapters in an environment like Colab's
	@echo "==> Colab rehearsal: other versions, the setup cell as written"
	@$(PY) tools/colab.py

colab: $(VENV)/.dev ## the Colab rehearsal for all chapters
	@$(PY) tools/colab.py --all

# ---------------------------------------------------------------- for authors
serve: book ## build the book and serve it on this machine (PORT=8000)
	@$(PY) -m http.server $(PORT) --bind 127.0.0.1 --directory _build/html

execute: $(VENV)/.dev ## run the notebooks and store their outputs (NOTEBOOKS=chapters/…)
	@$(PY) tools/execute.py $(NOTEBOOKS)

lint: check-code ## the same as check-code

format: $(VENV)/.dev ## format code and notebooks
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

repository: $(VENV)/.book ## change the repository's address everywhere (URL=https://github.com/you/your-fork)
	@test -n "$(URL)" || { echo "name the new address: make repository URL=https://github.com/you/your-fork"; exit 2; }
	@$(PY) tools/repository.py $(URL)

libraries: $(VENV)/.dev ## renew the front-end libraries in _lib from their npm packages (needs npm)
	@$(PY) tools/libraries.py

pins: ## renew constraints.txt from the newest versions that pyproject.toml allows
	@rm -rf _build/pins && $(PYTHON) -m venv _build/pins
	@_build/pins/$(notdir $(BIN))/python -m pip install --quiet $(PIP_ARGS) -e ".[dev]"
	@{ echo "# Exact pins, used by make and CI with -c. Renew them with: make pins"; \
	   _build/pins/$(notdir $(BIN))/python -m pip freeze --exclude-editable | sed 's/+cpu$$//' | sort -f; } > constraints.txt
	@echo "==> constraints.txt is renewed; now run: make test"

clean: ## remove what was built, environments included
	@rm -rf _build $(VENV) .venv-colab .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@echo "==> clean"
