"""Benchmarks: our code, the plain driver and similar products take turns in one run, and are compared by ratios."""
