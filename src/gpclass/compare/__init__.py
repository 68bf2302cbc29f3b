"""Which approximation to trust here: any set of methods on one data set, by cross-validation."""

from gpclass.compare.result import Agreement, Comparison, MethodResult
from gpclass.compare.run import compare

__all__ = ["Agreement", "Comparison", "MethodResult", "compare"]
