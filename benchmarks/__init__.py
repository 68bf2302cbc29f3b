"""Side by side with peers, in one run; prints ratios. ``python -m benchmarks [name ...] [--write]``."""
