"""The public classifiers, and the preparation of a fit."""
