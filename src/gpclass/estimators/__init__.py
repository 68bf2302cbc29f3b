"""The classifiers that users meet, and what a fit is given."""
