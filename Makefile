# Everything sets itself up: Python 3.11 or later with pip, git and make are enough.
.DEFAULT_GOAL := help
PYTHON ?= python3
TOOLS := .tools
VENV := .venv
BIN := $(VENV)/bin
# uv is installed into a folder of the clone: works where pip refuses system installs
UV := PYTHONPATH="$(CURDIR)/$(TOOLS)" $(PYTHON) -m uv
INSTALL := $(UV) pip install --quiet --python $(BIN)/python --constraint constraints.txt
# two groups of packages, the second on top of the first; each has a stamp
DEMO := $(VENV)/.ready-demo
TEST := $(VENV)/.ready-test

.PHONY: help setup demo test test-fast test-long test-gpu check format reproduce bench tables pictures docs clean

help:  ## list these targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

$(DEMO): pyproject.toml constraints.txt src/neatrec/_version.py
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else f"neatrec needs Python 3.11 or later, {sys.executable} is {sys.version.split()[0]}: run make PYTHON=python3.12")'
	@test -d $(TOOLS)/uv || $(PYTHON) -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --target $(TOOLS) uv
	@test -x $(BIN)/python || $(UV) venv --quiet --python $(PYTHON) $(VENV)
	$(INSTALL) --editable '.[serve,report]'
	@touch $@

$(TEST): $(DEMO)
	$(INSTALL) --editable '.[all]' --group test
	@touch $@

setup: $(TEST)  ## install neatrec and its tools into .venv

demo: $(DEMO)  ## run the pipeline on a simulated supermarket
	$(BIN)/neatrec demo

check: $(TEST)  ## check format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(TEST)  ## format, and fix what ruff can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# programs that tests run beside Python: installed from Debian by root, else named, and the tests
# that need them are skipped with a sentence
PROGRAM = { $(1); } >/dev/null 2>&1 || { test "$$(id -u)" = 0 && apt-get update -qq && apt-get install -y -qq --no-install-recommends $(2); } \
	|| echo "Some tests are skipped: install the package '$(2)' to run them." >&2

.PHONY: browser java postgres redis
browser:
	@$(call PROGRAM,command -v chromium || command -v chromium-browser || command -v google-chrome,chromium)
java:
	@$(call PROGRAM,command -v java || test -x "$$JAVA_HOME/bin/java",openjdk-17-jre-headless)
postgres:
	@$(call PROGRAM,command -v initdb || ls /usr/lib/postgresql/*/bin/initdb,postgresql)
redis:
	@$(call PROGRAM,command -v redis-server,redis-server)

test: check browser java postgres redis  ## run make check and all tests, as CI does
	$(BIN)/pytest -m "not long" -n 2 --dist loadfile

test-fast: $(TEST)  ## run unit tests only: no browser, Java, network, child process or training kernels
	$(BIN)/pytest -n 2 --dist loadfile -m "not slow and not long"

test-long: $(TEST)  ## run the tests that take too long for CI
	$(BIN)/pytest -m long
	$(BIN)/pytest -m "hypothesis and not long" --hypothesis-profile explore

test-gpu:  ## run the GPU tests with the installed interpreter
	PYTHONPATH=src $(PYTHON) -m pytest -o addopts=-ra -p no:cacheprovider tests/gpu tests/embeddings/test_gpu_host.py tests/embeddings/test_gpu_kernels.py
	PYTHONPATH=src $(PYTHON) -m pytest -o addopts=-ra -p no:cacheprovider tests/models/test_model_contract.py -k gpu

reproduce: $(TEST)  ## write the paper's tables beside ours: make reproduce DATA=folder of the Instacart tables
	@test -n "$(DATA)" || { echo "make reproduce DATA=folder: name the folder with the Instacart tables" >&2; exit 2; }
	$(BIN)/python -m reproduction $(DATA)

bench: $(TEST)  ## renew the short benchmark records (about 15 minutes; benchmarks/README.md)
	$(BIN)/python -m benchmarks

tables: $(TEST)  ## fill the tables of the docs from the records
	$(BIN)/python -m benchmarks.tables

pictures: browser $(TEST)  ## make the pictures of README and docs from the demo, with Chromium
	PYTHONPATH=. $(BIN)/python docs/pictures.py

docs: $(TEST)  ## build the documentation into site/
	$(INSTALL) --group docs
	$(BIN)/sphinx-build --quiet --fail-on-warning docs site

clean:  ## remove everything that these targets made
	rm -rf $(VENV) $(TOOLS) .cache dist build site .pytest_cache .mypy_cache .ruff_cache .hypothesis
