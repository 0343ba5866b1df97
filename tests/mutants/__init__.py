"""Mutation tests of the guards: the lines of code that a promise depends on.

A guard is data: a module, the exact text to remove, its replacement, and the tests that must then fail. The runner
changes a copy of `src`, never the working tree, and runs only those tests.

- `python -m tests.mutants` tries all guards, `--some 6` tries six different ones each day;
- `python -m tests.mutants queue.py` tries the guards whose module or name contains the text;
- `--check` only checks that every text occurs exactly once and that every test exists.
"""
