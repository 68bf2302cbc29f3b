"""Linear algebra, special functions, fixed points and threads: what knows nothing of classifiers."""
