"""Chains over kernel parameters: run side by side, interrupted, saved and resumed.

A sampler is a picklable object of settings and data with ``first(rng)``, ``step(state, rng, iteration)`` and
``pool(states)``; all that changes is a chain's state, a dict of arrays, and its random generator. So a chain can
move to another process, stop after any iteration, be written to disk and resume unchanged, and the result does not
depend on the number of processes. BLAS is limited to one thread in a step, since its rounding, and with it a chain's
path, depends on the number of threads. Iterations before ``sampler.warmup`` adapt; then ``pool`` combines the
adaptations and the proposal is fixed. Records of iterations from ``sampler.first_kept`` on are kept. Chains that are
too short continue to twice their length.
Cost: that of the steps. Fails when: the first stage is interrupted (there is nothing to return yet).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from threadpoolctl import threadpool_limits

from gpclass._typing import Array
from gpclass.hyper import checkpoint as saved
from gpclass.progress import Progress, progress

State: TypeAlias = dict[str, Array]
Record: TypeAlias = dict[str, Array]
ROUND = 10  # iterations of one chain before the next one runs
SAVE_EVERY = 10.0  # seconds between checkpoints


class Sampler(Protocol):
    """What a strategy passes to the driver."""

    @property
    def warmup(self) -> int:
        """Iterations that adapt the proposal."""

    @property
    def first_kept(self) -> int:
        """The iteration from which on records are kept."""

    @property
    def iterations(self) -> int:
        """All iterations."""

    def first(self, rng: np.random.Generator) -> State:
        """Where a chain starts."""

    def step(self, state: State, rng: np.random.Generator, iteration: int) -> tuple[State, Record]:
        """The next state, a new dict, and what to record; must not change ``state``."""

    def pool(self, states: list[State]) -> list[State]:
        """Combine the chains' adaptations, when all have adapted."""


class WarmUp:
    """Mixin: a sampler that adapts during the warm-up of its settings, which is dropped."""

    settings: Any

    @property
    def warmup(self) -> int:
        """The warm-up."""
        return int(self.settings.warmup)

    @property
    def first_kept(self) -> int:
        """The warm-up is dropped."""
        return int(self.settings.warmup)

    @property
    def iterations(self) -> int:
        """All iterations."""
        return int(self.settings.warmup + self.settings.length)


@dataclass
class Chain:
    """One chain: its generator, state and records so far."""

    rng: np.random.Generator
    state: State
    iteration: int = 0
    kept: dict[str, list[Array]] = field(default_factory=dict)
    mark: Mapping[str, Any] = field(default_factory=dict)  # the generator's state after the last iteration

    @property
    def draws(self) -> int:
        """Number of kept records."""
        return len(self.kept.get("theta", []))


@dataclass(frozen=True)
class ChainRun:
    """The result of a run of several chains."""

    chains: list[Chain]
    interrupted: bool

    def stack(self, name: str) -> Array:
        """A kept quantity, (chains, draws, ...), as long as the shortest chain."""
        shortest = min(len(chain.kept[name]) for chain in self.chains)
        return np.stack([np.stack(chain.kept[name][:shortest]) for chain in self.chains])


def run_chains(
    sampler: Sampler,
    n_chains: int,
    rng: np.random.Generator,
    *,
    n_jobs: int | None = None,
    verbose: int = 0,
    label: str = "",
    path: str | os.PathLike[str] | None = None,
    fingerprint: str = "",
    too_short: Callable[[Array], bool] = lambda _: False,
    doublings: int = 0,
) -> ChainRun:
    """Run all chains to the end, or until Ctrl-C.

    Parameters
    ----------
    sampler : Sampler
    n_chains : int
    rng : Generator
        Each chain gets a generator spawned from it.
    n_jobs : int, optional
        Processes, as in joblib.
    verbose, label
        Progress bar.
    path : path, optional
        Where chains are saved during the run; if the file exists they resume from it.
    fingerprint : str
        Identifies data and settings; a file with another one is rejected.
    too_short : callable
        Whether the draws of θ, (chains, draws, p), should be twice as many.
    doublings : int
        How often it is called.
    """
    file = None if path is None else Path(path)
    generators = rng.spawn(n_chains)
    stages = [sampler.warmup, sampler.iterations]
    with threadpool_limits(1):
        if file is not None and file.exists():
            chains, stage = saved.load(file, fingerprint, n_chains)
            stage = min(stage, len(stages) - 1)  # a finished run may have been made longer
        else:
            chains, stage = [Chain(g, sampler.first(g), mark=g.bit_generator.state) for g in generators], 0
        left = sum(max(0, stages[-1] - chain.iteration) for chain in chains)
        with progress(left, label, verbose=verbose) as bar:
            save = _saver(file, fingerprint, chains)
            while stage < len(stages):
                if not _run_stage(sampler, chains, stages[stage], n_jobs, bar, lambda: save(stage, False)):  # noqa: B023 (called before it changes)
                    save(stage, True)
                    return _interrupted(chains, file)
                if stage == 0:
                    for chain, state in zip(chains, sampler.pool([c.state for c in chains]), strict=True):
                        chain.state = state
                stage += 1
                save(stage, True)
            length = sampler.iterations - sampler.first_kept
            for _ in range(doublings):
                # Of the draws an uninterrupted run would have: the decision is the same after a resume.
                if not too_short(ChainRun(chains, False).stack("theta")[:, :length]):
                    break
                length *= 2
                bar.doing(f"{label}, not mixed yet, continuing to {length} draws per chain")
                stop = sampler.first_kept + length
                bar.more(sum(max(0, stop - chain.iteration) for chain in chains))
                if not _run_stage(sampler, chains, stop, n_jobs, bar, lambda: save(stage, False)):
                    save(stage, True)
                    return _interrupted(chains, file)
                save(stage, True)
    return ChainRun(chains, False)


def advance(
    sampler: Sampler, chain: Chain, stop: int, tell: Callable[[Record], None] | None = None
) -> tuple[Chain, bool]:
    """Advance a chain to iteration ``stop``; False if Ctrl-C came first, the last iteration undone then."""
    try:
        while chain.iteration < stop:
            state, record = sampler.step(chain.state, _own(chain.rng), chain.iteration)
            if chain.iteration >= sampler.first_kept:
                for name, value in record.items():
                    chain.kept.setdefault(name, []).append(value)
            chain.state, chain.mark = state, chain.rng.bit_generator.state
            chain.iteration += 1
            if tell is not None:
                tell(record)
    except KeyboardInterrupt:
        chain.rng.bit_generator.state = chain.mark
        return chain, False
    return chain, True


def _own(rng: np.random.Generator) -> np.random.Generator:
    """A generator for one iteration: its children do not depend on how often another has spawned before."""
    return np.random.default_rng(rng.integers(2**32, size=4, dtype=np.uint64))


def _run_stage(
    sampler: Sampler,
    chains: list[Chain],
    stop: int,
    n_jobs: int | None,
    bar: Progress,
    save: Callable[[], None],
) -> bool:
    """All chains to iteration ``stop``, in rounds; False if interrupted."""

    def tell(record: Record) -> None:
        bar.update(accepted=bool(record["accepted"] > 0.5))

    jobs = min(effective_n_jobs(n_jobs), len(chains))
    try:
        while any(chain.iteration < stop for chain in chains):
            if not _round(sampler, chains, stop, jobs, bar, tell):
                return False
            save()
    except KeyboardInterrupt:  # between two iterations
        return False
    return True


def _round(
    sampler: Sampler,
    chains: list[Chain],
    stop: int,
    jobs: int,
    bar: Progress,
    tell: Callable[[Record], None],
) -> bool:
    """A few iterations of every chain; False if interrupted."""
    if jobs == 1:
        return all(advance(sampler, chain, min(stop, chain.iteration + ROUND), tell)[1] for chain in chains)
    moved = Parallel(n_jobs=jobs)(  # Ctrl-C loses the round; earlier ones are complete
        delayed(_advance_copy)(sampler, chain, min(stop, chain.iteration + 5 * ROUND)) for chain in chains
    )
    for chain, (new, ratio) in zip(chains, moved, strict=True):
        bar.update(new.iteration - chain.iteration, accepted=round(ratio))
        for name, values in new.kept.items():
            chain.kept.setdefault(name, []).extend(values)
        chain.rng, chain.state, chain.iteration, chain.mark = new.rng, new.state, new.iteration, new.mark
    return True


def _advance_copy(sampler: Sampler, chain: Chain, stop: int) -> tuple[Chain, float]:
    """:func:`advance` in another process: only the new records are returned, with the accepted count."""
    accepted = [0.0]

    def tell(record: Record) -> None:
        accepted[0] += float(record["accepted"])

    bare = Chain(chain.rng, chain.state, chain.iteration, {}, chain.mark)
    with threadpool_limits(1):
        return advance(sampler, bare, stop, tell)[0], accepted[0]


def _saver(file: Path | None, fingerprint: str, chains: list[Chain]) -> Callable[[int, bool], None]:
    """A function that saves the chains at intervals, or when forced."""
    last = [time.monotonic()]

    def save(stage: int, must: bool) -> None:
        if file is None or not (must or time.monotonic() - last[0] > SAVE_EVERY):
            return
        saved.save(file, fingerprint, chains, stage)
        last[0] = time.monotonic()

    return save


def _interrupted(chains: list[Chain], file: Path | None) -> ChainRun:
    """The draws so far; if there are none the interrupt is raised to the caller."""
    if min(chain.draws for chain in chains) < 1:
        kept = f"; fit again with the same checkpoint={str(file)!r} to continue" if file is not None else ""
        raise KeyboardInterrupt(f"interrupted before every chain had a draw{kept}")
    return ChainRun(chains, True)
