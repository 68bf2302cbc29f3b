"""Inducing points: the prior as low rank plus diagonal, its sites over shards of rows."""

from gpclass.sparse.shards import ArraySource, Executor, Serial, Shard, Source

__all__ = ["ArraySource", "Executor", "Serial", "Shard", "Source"]
