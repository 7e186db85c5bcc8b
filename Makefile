# make demo    the atlas of Unicode, on 127.0.0.1:$(PORT)
# make test    the tests, with coverage
# make lint types
# make wheel   in dist/, from a source archive, so that nothing but what is released gets in
# PYTHON=...   the Python to make .venv with; by default the newest one found, 3.11 or later

PORT ?= 8000
PYTHON ?=
BIN := .venv/bin

.DELETE_ON_ERROR:
.PHONY: demo test lint types wheel clean

demo: .venv/.demo
	$(BIN)/python -m demo_app.prepare
	$(BIN)/gunicorn -c demo_app/gunicorn.conf.py --bind 127.0.0.1:$(PORT) "demo_app:create_app()"

test: .venv/.test
	$(BIN)/python -m pytest --cov --cov-report=term

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.dev .venv/.test
	$(BIN)/mypy

wheel: .venv/.dev
	$(BIN)/python -m build --outdir dist .

clean:
	rm -rf .venv build dist *.egg-info .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache

# One stamp for each extra: installing is repeated only when pyproject.toml changes.
.venv/.%: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@

$(BIN)/python:
	@python=$$(bash .ci/pythons $(PYTHON) | sed -n 1p); \
	if [ -z "$$python" ]; then \
		echo "No Python 3.11 or newer runs here$(if $(PYTHON), under the name $(PYTHON)). Install one, or name it: make PYTHON=/path/to/python3.12 ..." >&2; \
		exit 1; \
	fi; \
	if ! "$$python" -c 'import ensurepip' 2>/dev/null; then \
		echo "$$python cannot make a virtual environment with pip (no module ensurepip). On Debian and Ubuntu: apt-get install python3-venv" >&2; \
		exit 1; \
	fi; \
	echo "Making .venv with $$python"; \
	"$$python" -m venv --clear .venv
