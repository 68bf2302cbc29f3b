"""Inducing points: the prior as low rank plus diagonal, its sites over shards of rows.

:class:`SparseMaximize` holds the settings of the fit, to be given as ``hyperparameters=``.
"""

from gpclass.sparse.inducing import sample_rows
from gpclass.sparse.maximize import SparseMaximize
from gpclass.sparse.problem import SparseProblem, make_problem
from gpclass.sparse.shards import ArraySource, Executor, Local, Shard, Source
from gpclass.sparse.wanted import as_source, in_files, is_dask, is_source, is_wanted

__all__ = [
    "ArraySource",
    "Executor",
    "Local",
    "Shard",
    "Source",
    "SparseMaximize",
    "SparseProblem",
    "as_source",
    "in_files",
    "is_dask",
    "is_source",
    "is_wanted",
    "make_problem",
    "sample_rows",
]
