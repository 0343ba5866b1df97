.PHONY: serve test lint types bench prove docs constraints clean

# Ctrl-C is how it is meant to end, and no error.
serve:
	@./serve || [ $$? -eq 130 ]

test:
	@./test

lint: .venv/.stamp-dev
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports

bench: .venv/.stamp-dev
	.venv/bin/python -m bench

prove: .venv/.stamp-dev
	.venv/bin/python -m bench.prove

docs: .venv/.stamp-dev
	.venv/bin/sphinx-build -q -W -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

constraints: .venv/.stamp-dev
	@{ sed -n 1p constraints.txt; .venv/bin/pip freeze --exclude-editable; } > constraints.new && mv constraints.new constraints.txt

.venv/.stamp-dev: pyproject.toml constraints.txt
	@bash -c '. tools/environment.sh; prepare dev'

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache docs/_build
