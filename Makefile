# make up | down | test | check | bench | verify | format | clean
# ARGS goes to the program behind the target: make up ARGS="--engine simulator --port 18101 --data-dir D"

PYTHON ?= $(shell command -v python3.11 || command -v python3)
export ARGS ?=
# Where this is set, each of a hundred processes would compile all that it imports anew: three times as long to start.
export PYTHONDONTWRITEBYTECODE =
# Where torch for CPUs comes from when pip's own sources do not have it.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu

INSTALL = $(PYTHON) tools/install.py --torch-index "$(TORCH_INDEX)"
VENV_PYTHON = .venv/bin/python
PRODUCTION = SLUICE_DATA_DIR=.venv/check-data SLUICE_PRODUCTION=true SLUICE_HTTPS=true SLUICE_ALLOWED_HOSTS=sluice.example \
	SLUICE_SECRET_KEY=$$($(VENV_PYTHON) -c 'import secrets; print(secrets.token_urlsafe(50))')

# What touches the database runs on SQLite with all others, and once more on Postgres.
ON_POSTGRES = tests/integration/tenants tests/integration/admin tests/integration/operators_api \
	tests/integration/below tests/integration/bulk \
	$(addprefix --ignore=tests/integration/admin/,test_boot.py test_packaged_files.py test_translations.py)

# Where the real engine is asked: nothing else is collected for it.
REAL = tests/acceptance tests/contract

.DEFAULT_GOAL := help
.PHONY: help up down test check bench verify format clean install-dev

help:
	@echo "make up      install, start everything, print how to use it (Ctrl-C stops it)"
	@echo "make down    stop what runs on the data directory"
	@echo "make test    all tests, real engine and browser included"
	@echo "make check   lint, types, import rules, migrations, settings, YAML"
	@echo "make bench   the figures of the README"
	@echo "make verify  whether an engine answers the same alone and batched"
	@echo "make format  format the code"
	@echo "make clean   remove the environment and all caches, never data"

up:
	@$(INSTALL) --for-up "$$ARGS"
	@exec $(VENV_PYTHON) manage.py up --times .venv/install-times.json $(ARGS)

down:
	@$(VENV_PYTHON) manage.py down $(ARGS)

install-dev:
	@$(INSTALL) --dev

test: install-dev
	@# As root on Debian this installs the browser and the Postgres that some tests need, and fetches a Prometheus and
	@# the official types of dashboards and queries; elsewhere they say so.
	@$(PYTHON) tools/chromium.py
	@$(PYTHON) tools/postgres.py
	@$(PYTHON) tools/prometheus.py
	@$(PYTHON) tools/schemas.py
	@# The real engine takes all cores, so its tests run alone; the others wait much and share them.
	HF_HUB_OFFLINE=1 $(VENV_PYTHON) -m pytest -m "not vllm" --numprocesses 2 $(ARGS)
	$(PYTHON) -m tools.on_postgres $(VENV_PYTHON) -m pytest --numprocesses 2 $(ON_POSTGRES) $(ARGS)
	HF_HUB_OFFLINE=1 $(VENV_PYTHON) -m pytest -m vllm $(REAL) $(ARGS)

check: install-dev
	$(VENV_PYTHON) -m ruff check .
	$(VENV_PYTHON) -m ruff format --check .
	$(VENV_PYTHON) -m mypy
	$(VENV_PYTHON) -m mypy manage.py tools
	.venv/bin/lint-imports
	@mkdir -p .venv/check-data
	$(PRODUCTION) $(VENV_PYTHON) manage.py makemigrations --check --dry-run
	$(PRODUCTION) $(VENV_PYTHON) manage.py check --deploy --fail-level WARNING
	$(VENV_PYTHON) tools/check_yaml.py

bench: install-dev
	HF_HUB_OFFLINE=1 $(VENV_PYTHON) -m bench $(ARGS)

verify: install-dev
	@HF_HUB_OFFLINE=1 $(VENV_PYTHON) manage.py verify $(ARGS)

format:
	$(VENV_PYTHON) -m ruff check --fix .
	$(VENV_PYTHON) -m ruff format .

clean:
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
