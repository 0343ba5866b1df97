"""Guards that our promises rest on, each shown to be watched: without it, the tests named beside it fail.

A guard is data: a module, the exact text that is taken out, what stands there instead, and the tests. The runner
changes a copy of `src`, never the working tree, and runs those tests alone.

- `python -m tests.mutants` tries them all, `--some 6` a handful that is another one each day;
- `python -m tests.mutants queue.py` those whose module or name holds that text;
- `--check` only looks whether every text is still there, exactly once, and every test too.
"""
