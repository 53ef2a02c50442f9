# Everything sets itself up: Python 3.11 or later with pip, git and make are enough.
.DEFAULT_GOAL := help
PYTHON ?= python3
TOOLS := .tools
VENV := .venv
BIN := $(VENV)/bin
# uv is installed into a folder of the clone: works where pip refuses system installs
UV := PYTHONPATH="$(CURDIR)/$(TOOLS)" $(PYTHON) -m uv
READY := $(VENV)/.ready

.PHONY: help setup demo test test-fast test-long test-gpu check format bench tables pictures docs clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

$(READY): pyproject.toml constraints.txt src/neatrec/_version.py
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else f"neatrec needs Python 3.11 or later, {sys.executable} is {sys.version.split()[0]}: run make PYTHON=python3.12")'
	@test -d $(TOOLS)/uv || $(PYTHON) -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --target $(TOOLS) uv
	@test -x $(BIN)/python || $(UV) venv --quiet --python $(PYTHON) $(VENV)
	$(UV) pip install --quiet --python $(BIN)/python --constraint constraints.txt --editable '.[all]' --group dev
	@touch $@

setup: $(READY)  ## install neatrec and its tools into .venv

demo: $(READY)  ## the whole pipeline on a simulated supermarket
	$(BIN)/neatrec demo

check: $(READY)  ## format, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(READY)  ## format, and fix what ruff can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# what the tests run beside Python: installed from Debian where that can be done, else named
INSTALL = { if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then apt-get update -qq && apt-get install -y -qq --no-install-recommends $(PACKAGE); \
	    elif command -v sudo >/dev/null && sudo -n true 2>/dev/null && command -v apt-get >/dev/null; then sudo apt-get update -qq && sudo apt-get install -y -qq --no-install-recommends $(PACKAGE); \
	    else echo "$(WITHOUT)" >&2; fi; }

# the web page is tested in a real browser; without one its tests fail, they do not skip
.PHONY: browser
browser: PACKAGE := chromium
browser: WITHOUT := The web page is tested in a real Chromium: install the package 'chromium', or set NEATREC_CHROMIUM to a browser.
browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || $(INSTALL)

# the Spark engine is tested in local mode; without Java its tests are skipped with a sentence
.PHONY: java
java: PACKAGE := openjdk-17-jre-headless
java: WITHOUT := The Spark engine is tested with Java 17: install the package 'openjdk-17-jre-headless', or set JAVA_HOME.
java:
	@command -v java >/dev/null || test -x "$$JAVA_HOME/bin/java" || $(INSTALL)

# databases are read from a PostgreSQL that the tests start; without it they are skipped with a sentence
.PHONY: postgres
postgres: PACKAGE := postgresql
postgres: WITHOUT := Databases are tested with a real PostgreSQL: install the package 'postgresql'.
postgres:
	@command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || $(INSTALL)

# exports into Redis likewise
.PHONY: redis
redis: PACKAGE := redis-server
redis: WITHOUT := Exports are tested with a real Redis: install the package 'redis-server'.
redis:
	@command -v redis-server >/dev/null || $(INSTALL)

test: check browser java postgres redis  ## everything CI runs
	$(BIN)/pytest -m "not long" -n 2 --dist loadfile

test-fast: $(READY)  ## unit tests only: no browser, Java, torch, network, child process or training kernels
	$(BIN)/pytest -n 2 --dist loadfile -m "not slow and not long"

test-long: $(READY)  ## what takes longer than CI should
	$(BIN)/pytest -m long
	$(BIN)/pytest -m "hypothesis and not long" --hypothesis-profile explore

test-gpu:  ## the GPU tests, with the interpreter that is there: installs nothing
	PYTHONPATH=src $(PYTHON) -m pytest -o addopts=-ra -p no:cacheprovider tests/gpu tests/embeddings/test_gpu_host.py tests/embeddings/test_gpu_kernels.py tests/embeddings/test_gpu_memory.py tests/embeddings/test_gpu_ranking.py tests/embeddings/test_gpu_ranking_host.py
	PYTHONPATH=src $(PYTHON) -m pytest -o addopts=-ra -p no:cacheprovider tests/models/test_model_contract.py -k gpu

bench: $(READY)  ## renew the short benchmark records (about 15 minutes; docs/studies/benchmarks.md)
	$(BIN)/python -m benchmarks

tables: $(READY)  ## fill the tables of the docs from the records
	$(BIN)/python -m benchmarks.tables

pictures: browser $(READY)  ## make the pictures of README and docs from the demo, with Chromium
	PYTHONPATH=. $(BIN)/python docs/pictures.py

docs: $(READY)  ## build the documentation into site/
	$(UV) pip install --quiet --python $(BIN)/python --constraint constraints.txt --group docs
	$(BIN)/sphinx-build --quiet --fail-on-warning docs site

clean:  ## remove what the targets made
	rm -rf $(VENV) $(TOOLS) .cache dist build site .pytest_cache .mypy_cache .ruff_cache .hypothesis
