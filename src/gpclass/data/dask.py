"""Shards on the workers of a Dask client: the executor.

A shard lives on one worker. A pass over the data is one task per shard and a tree of additions whose shape depends on
the number of shards alone, so that the same shards give the same sums whichever worker did them; what travels is the
small arguments of the pass and one set of sums.

A worker that dies takes its shards along. Each shard is known by how it was made: read from its source, then the passes
since, a chain of pure functions; Dask does again what was lost, and the answer is the same. So that the chain stays
short, after ``CHAIN`` passes that changed the sites they are copied here (16 bytes per row), and the chain starts again
from them. Where all workers were lost at once, the tasks that preferred them are freed for the new ones.
Cost: three small tasks per shard and pass, some milliseconds; the shards' own work is O(r m²).
Fails when: the client has closed, no worker is left for ``PATIENCE`` seconds, or a worker's memory does not suffice;
each is an error that says so.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import CancelledError as _Cancelled
from dataclasses import dataclass, field, fields, replace
from functools import partial, reduce
from typing import Any

from gpclass._typing import Array
from gpclass.data.dask_client import ClientGoneError, client_gone, distributed_package, environment_client
from gpclass.data.dask_collections import DelayedRows
from gpclass.model.rows import Shard, Work
from gpclass.model.sums import FAN, Sums, add

CHAIN = 10  # passes that change a shard before its sites are copied to this process
ROWS = ("X", "y", "weights", "first", "scratch")  # fields of a shard that no pass changes
PATIENCE = 60.0  # seconds without any worker before giving up


@dataclass(frozen=True, eq=False)
class Placed:
    """A shard on a worker."""

    base: Any  # future of the shard as read from its source
    state: Any  # future of (shard, ...): the last pass that changed it, or the base
    worker: str  # preferred worker; another one if it is lost
    passes: int = 0  # since the base or the last copy of its sites

    def __getstate__(self) -> dict[str, Any]:
        """Pickled state: futures belong to this client only."""
        return {**vars(self), "base": None, "state": None}


@dataclass(frozen=True, eq=False)
class DaskExecutor:
    """Runs work on the workers of a client; None: the open client."""

    client: Any = None
    chosen: set[str] = field(default_factory=set)  # workers that shards were placed on

    def __post_init__(self) -> None:
        if self.client is None:
            found = environment_client()
            if found is None:
                raise ClientGoneError("no Dask client is open: start one first, client = distributed.Client(...)")
            object.__setattr__(self, "client", found)

    def __getstate__(self) -> dict[str, Any]:
        """Pickled state, without the client."""
        return {"client": None, "chosen": set()}

    def place(self, shards: Sequence[Shard]) -> list[Any]:
        """One future per shard; neighbours go to the same worker."""
        self._check()
        workers = sorted(self.client.scheduler_info(n_workers=-1)["workers"])
        if not workers:
            raise ClientGoneError(
                "the Dask client has no workers: start some, or wait for them with client.wait_for_workers(1)"
            )
        self.chosen.update(workers)
        placed = []
        with _large_graphs():
            for k, shard in enumerate(shards):
                worker = workers[k * len(workers) // len(shards)]
                if isinstance(shard.X, DelayedRows):
                    rows = self.client.compute(shard.X.delayed, workers=[worker], allow_other_workers=True)
                    bare = replace(shard, X=replace(shard.X, delayed=None))  # the worker needs no graph
                    base = self._submit(_assemble, worker, rows, bare)
                else:
                    base = self._submit(_hold, worker, shard)
                placed.append(Placed(base, base, worker))
        return placed

    def map_reduce(self, work: Work, held: Sequence[Any], *arguments: Any) -> tuple[list[Any], Sums]:
        """One task per shard, then a tree of additions."""
        if not held:
            raise ValueError("the data have no rows; give at least one")
        self._check()
        with _large_graphs():
            given = self._submit(_hold, None, arguments)  # one copy for all, which Dask can recompute
            states = self._each(partial(_run, work), held, [h.state for h in held], [given] * len(held))
        level = self._each(_sums, held, states)
        while len(level) > 1:
            level = [
                self._submit(_fold, None, level[k : k + FAN]) if level[k + 1 : k + 2] else level[k]
                for k in range(0, len(level), FAN)
            ]
        sums: Sums
        sums, changed = self._result(level[0])
        if not changed:
            return list(held), sums
        new = [replace(h, state=state, passes=h.passes + 1) for h, state in zip(held, states, strict=True)]
        return self._shortened(new), sums

    def fetch(self, held: Sequence[Any]) -> list[Shard]:
        """The shards, without features that would have to be transferred."""
        return list(self._result(self._each(_light, held, [h.state for h in held])))

    def _shortened(self, held: list[Placed]) -> list[Any]:
        """Restart long chains from copies of the sites."""
        long = [k for k, h in enumerate(held) if h.passes >= CHAIN]
        if not long:
            return list(held)
        copies = self._result(self._each(_changes, [held[k] for k in long], [held[k].state for k in long]))
        with _large_graphs():
            for k, changes in zip(long, copies, strict=True):
                h = held[k]
                # The worker that holds the shard keeps its own, including scratch; the copy is read only after a loss.
                state = self._submit(partial(replace, **changes), h.worker, h.base)
                held[k] = replace(h, state=state, passes=0)
        return list(held)

    def _submit(self, function: Any, worker: str | None, *arguments: Any, each: bool = False) -> Any:
        """One task on a worker, if given; with ``each`` one for every element of the arguments."""
        place = {} if worker is None else {"workers": [worker], "allow_other_workers": True}
        send = self.client.map if each else self.client.submit
        try:
            return send(function, *arguments, pure=False, **place)
        except Exception as error:
            raise self._explained(error) from error

    def _each(self, function: Any, held: Sequence[Placed], *columns: Sequence[Any]) -> list[Any]:
        """One task per shard where the shard is, sent together for each worker."""
        futures: list[Any] = [None] * len(held)
        for worker in dict.fromkeys(h.worker for h in held):
            mine = [k for k, h in enumerate(held) if h.worker == worker]
            given = [[column[k] for k in mine] for column in columns]
            for k, future in zip(mine, self._submit(function, worker, *given, each=True), strict=True):
                futures[k] = future
        return futures

    def _check(self) -> None:
        if getattr(self.client, "status", "closed") != "running":
            raise client_gone("it is closed")

    def _result(self, futures: Any) -> Any:
        """Results of the futures; raises an error with the reason if they are unavailable."""
        distributed = distributed_package()
        alone_since: float | None = None
        while True:
            try:
                self._check()
                pending = futures if isinstance(futures, list) else [futures]
                distributed.wait(pending, timeout=2.0)
                return self.client.gather(futures)
            except TimeoutError:
                self._check()
                workers = set(self.client.scheduler_info(n_workers=-1)["workers"])
                if workers:
                    alone_since = None
                    if not self.chosen <= workers:
                        self._free(workers)
                    continue
                alone_since = alone_since or time.monotonic()
                if time.monotonic() - alone_since > PATIENCE:
                    raise client_gone("its scheduler has had no workers for a minute") from None
            except Exception as error:
                raise self._explained(error) from error

    def _free(self, workers: set[str]) -> None:
        """Let tasks of lost workers go to those that are left."""
        try:
            self.client.run_on_scheduler(_unpin)
        except ImportError:  # a scheduler without this package cannot be asked
            if workers.isdisjoint(self.chosen):
                raise client_gone("all its workers were replaced at once") from None

    def _explained(self, error: Exception) -> Exception:
        distributed = distributed_package()
        if isinstance(error, ClientGoneError):
            return error
        if isinstance(error, distributed.scheduler.KilledWorker):
            return ClientGoneError(
                f"a shard killed its worker several times ({error}), probably out of memory; use more "
                "or smaller shards (row groups, chunks), fewer inducing points, or workers with more memory"
            )
        status = getattr(self.client, "status", "closed")
        gone = (_Cancelled, distributed.CancelledError, distributed.comm.CommClosedError)
        if status != "running" or isinstance(error, gone):
            return client_gone(str(error) or type(error).__name__)
        return error


def _large_graphs() -> Any:
    """A context without Dask's warning about large arguments: the scheduler is meant to keep them."""
    import dask

    return dask.config.set({"distributed.admin.large-graph-warning-threshold": "10 GB"})


def _unpin(dask_scheduler: Any) -> None:
    """Let tasks run anywhere that wait for a worker which is gone, on the scheduler.

    Where all workers die at once, Dask keeps their tasks for the old addresses, even if others are allowed, and asks no
    worker that comes later.
    """
    for task in dask_scheduler.unrunnable:
        if task.loose_restrictions:
            task.worker_restrictions = None
    for worker in list(dask_scheduler.running):
        found = dask_scheduler.bulk_schedule_unrunnable_after_adding_worker(worker)
        dask_scheduler.transitions(found, stimulus_id="gpclass-unpin")


# ---- tasks, which run on workers -------------------------------------------------------------------------------------


def _hold(value: Any) -> Any:
    return value


def _assemble(rows: Any, shard: Shard) -> Shard:
    return replace(shard, X=shard.X.of(rows))  # type: ignore[union-attr]  # DelayedRows


def _shard(state: Any) -> Shard:
    found: Shard = state[0] if isinstance(state, tuple) else state
    return found


def _run(work: Work, state: Any, arguments: tuple[Any, ...]) -> tuple[Shard, Sums, bool]:
    shard = _shard(state)
    moved, sums = work(shard, *arguments)
    return moved, sums, moved is not shard


def _sums(state: tuple[Shard, Sums, bool]) -> tuple[Sums, bool]:
    return state[1], state[2]


def _fold(parts: Sequence[tuple[Sums, bool]]) -> tuple[Sums, bool]:
    return reduce(add, [sums for sums, _ in parts]), any(changed for _, changed in parts)


def _changes(state: Any) -> dict[str, Any]:
    """The parts of a shard that passes may change: all but its rows."""
    shard = _shard(state)
    return {item.name: getattr(shard, item.name) for item in fields(shard) if item.name not in ROWS}


def _light(state: Any) -> Shard:
    shard = _shard(state)
    return shard if callable(shard.X) else replace(shard, X=_features_elsewhere)


def _features_elsewhere() -> Array:
    raise ValueError("these rows are on a Dask worker: process them there, with map_reduce")
