"""Linear algebra, special functions, fixed points and threads: independent of classification."""
