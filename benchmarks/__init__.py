"""Comparison with peers in the same run; prints ratios. ``python -m benchmarks [name ...] [--write]``."""
