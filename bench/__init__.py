"""Benchmarks: ours, the raw driver and the peers, alternately in one run, compared by medians of ratios."""
