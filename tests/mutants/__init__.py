"""Mutation tests of the guards: the lines of code that a promise depends on.

A guard is a line below a comment `# guard: name` in `src`, or several lines below `# guard, 2 lines: name`. A table in
`guards_*.toml` has a line for each, below its tests' file: `name = [what replaces it, tests that must then fail]`.
The runner changes a copy of `src`, never the working tree, and runs only those tests.

- `python -m tests.mutants` tries all guards, `--some 6` tries six different ones each day;
- `python -m tests.mutants queue.py` tries the guards whose file or name contains the text;
- `--check` only checks that comments and tables agree and that every test exists.
"""
