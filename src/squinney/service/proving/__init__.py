"""Proofs: workers do an operation again and again, are killed with `kill -9`, and then every promise is checked.

`squinney prove` and the site's page `/prove` share the engine (`engine.py`). The page runs it in a process of its own
(`runner.py`), which reports to the site (`prover.py`).
"""
