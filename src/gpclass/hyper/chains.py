"""Chains over kernel parameters: run side by side, interrupted, saved and resumed.

All that changes is a chain's state, a dict of arrays, and its random generator. So a chain can move to another
process, stop after any iteration, be written to disk and resume unchanged, and the result does not depend on the
number of processes. BLAS is limited to one thread in a step, since its rounding, and with it a chain's path, depends
on the number of threads. The warm-up adapts; then ``pool`` combines the adaptations and the proposal is fixed. Chains
that are too short continue to twice their length.
Cost: that of the steps. Fails when: the first stage is interrupted (there is nothing to return yet).
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from threadpoolctl import threadpool_limits

from gpclass._typing import Array
from gpclass.hyper import checkpoint as saved
from gpclass.inference.redraw import Seed
from gpclass.progress import Progress, progress

if TYPE_CHECKING:
    from gpclass.hyper.full_bayes import FullBayes

State: TypeAlias = dict[str, Array]
Record: TypeAlias = dict[str, Array]
ROUND = 10  # iterations of one chain before the next one runs
SAVE_EVERY = 10.0  # seconds between checkpoints


class Sampler(ABC):
    """Moves one chain over θ: settings and data, picklable, that no step changes."""

    settings: FullBayes  # the strategy: lengths of the chains, and how many draws are kept for predictions

    @property
    def first_kept(self) -> int:
        """The iteration from which on records are kept."""
        return self.settings.dropped

    @property
    def iterations(self) -> int:
        """All iterations."""
        return self.settings.dropped + self.settings.length

    @abstractmethod
    def first(self, rng: np.random.Generator) -> State:
        """Where a chain starts."""

    @abstractmethod
    def step(self, state: State, rng: np.random.Generator, iteration: int) -> tuple[State, Record]:
        """The next state, a new dict, and what to record; must not change ``state``."""

    @abstractmethod
    def pool(self, states: list[State]) -> list[State]:
        """Combine the chains' adaptations, when all have adapted."""

    def keeps_vectors(self, iteration: int) -> bool:
        """Whether this iteration is one of about ``keep`` in all chains, evenly spaced, that predictions use."""
        every = max(1, -(-self.settings.length * self.settings.chains // self.settings.keep))
        return iteration >= self.first_kept and (iteration - self.first_kept) % every == 0

    def keeps_latents(self, iteration: int) -> bool:
        """Whether a draw of the latent values is recorded: with the vectors, or always if the settings say so."""
        return self.keeps_vectors(iteration) or (self.settings.pointwise and iteration >= self.first_kept)

    def record(self, state: State, f: Array | None, accepted: float, iteration: int) -> Record:
        """What a kept iteration adds to the trace, ``f`` being the latent values at the rows if they are kept."""
        kept = {name: state[name] for name in ("theta", "value", "log_z")}
        kept |= {"accepted": np.asarray(accepted, dtype=float)}
        if f is not None:
            kept |= {"f": f, "f_at": np.asarray(iteration)}
        if self.keeps_vectors(iteration):
            kept |= {"kept_at": np.asarray(iteration), "vectors": state["vectors"]}
        return kept


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

    def at(self, when: str, name: str, first: int) -> Array:
        """A quantity kept at every iteration from ``first`` on, at the kept iterations ``when``."""
        each = zip(self.chains, self.stack(when), strict=True)
        return np.stack([np.stack([chain.kept[name][int(i) - first] for i in at]) for chain, at in each])


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
    seeded: bool = True,
    too_short: Callable[[Array], bool] = lambda _: False,
    doublings: int = 0,
) -> ChainRun:
    """Run all chains to the end, or until Ctrl-C, each with a generator spawned from ``rng``, in ``n_jobs`` processes.

    They are saved to ``path`` during the run, and resume from it if it exists; a file with another ``fingerprint``, of
    data and settings, is rejected, and so are finished chains of another seed, if ``seeded``. While ``too_short`` says
    so of the draws of θ, (chains, draws, p), they are doubled, at most ``doublings`` times.
    """
    file = None if path is None else Path(path)
    seed = repr(Seed.of(rng))
    generators = rng.spawn(n_chains)
    with threadpool_limits(1):
        if file is not None and file.exists():
            chains, stage, first = saved.load(file, fingerprint, n_chains)
            complete = stage == 2 and all(chain.iteration >= sampler.iterations for chain in chains)
            if complete and seeded and first != seed:
                raise saved.of_others(file, "finished chains", "another random_state")
            stage, seed = min(stage, 1), first
        else:
            chains, stage = [Chain(g, sampler.first(g), mark=g.bit_generator.state) for g in generators], 0
        left = sum(max(0, sampler.iterations - chain.iteration) for chain in chains)
        save = _saver(file, fingerprint, seed, chains)
        stop = (sampler.settings.warmup or 0) if stage == 0 else sampler.iterations
        length = sampler.iterations - sampler.first_kept
        with progress(left, label, verbose=verbose) as bar:
            while _run_to(stop, sampler, chains, n_jobs, bar, partial(save, stage, False)):
                if stage == 0:
                    for chain, state in zip(chains, sampler.pool([c.state for c in chains]), strict=True):
                        chain.state = state
                    stage, stop = 1, sampler.iterations
                # Of the draws an uninterrupted run would have: the decision is the same after a resume.
                elif doublings and too_short(ChainRun(chains, False).stack("theta")[:, :length]):
                    doublings, length = doublings - 1, 2 * length
                    bar.doing(f"{label}, not mixed yet, continuing to {length} draws per chain")
                    stop = sampler.first_kept + length
                    bar.more(sum(max(0, stop - chain.iteration) for chain in chains))
                else:
                    save(2, True)
                    return ChainRun(chains, False)
                save(stage, True)
            save(stage, True)
    if min(chain.draws for chain in chains) < 1:
        kept = f"; fit again with the same checkpoint={str(file)!r} to continue" if file is not None else ""
        raise KeyboardInterrupt(f"interrupted before every chain had a draw{kept}")
    return ChainRun(chains, True)


def advance(sampler: Sampler, chain: Chain, stop: int, tell: Callable[[Record], None]) -> bool:
    """Advance a chain to iteration ``stop``; False if Ctrl-C came first, the last iteration undone then."""
    try:
        while chain.iteration < stop:
            # A generator for this iteration: its children do not depend on how often another has spawned before.
            own = np.random.default_rng(chain.rng.integers(2**32, size=4, dtype=np.uint64))
            state, record = sampler.step(chain.state, own, chain.iteration)
            if chain.iteration >= sampler.first_kept:
                for name, value in record.items():
                    chain.kept.setdefault(name, []).append(value)
            chain.state, chain.mark = state, chain.rng.bit_generator.state
            chain.iteration += 1
            tell(record)
    except KeyboardInterrupt:
        chain.rng.bit_generator.state = chain.mark
        return False
    return True


def _run_to(
    stop: int,
    sampler: Sampler,
    chains: list[Chain],
    n_jobs: int | None,
    bar: Progress,
    save: Callable[[], None],
) -> bool:
    """All chains to iteration ``stop``, a few iterations of each in turn; False if interrupted."""
    jobs = min(effective_n_jobs(n_jobs), len(chains))

    def tell(record: Record) -> None:
        bar.update(accepted=bool(record["accepted"] > 0.5))

    try:
        while any(chain.iteration < stop for chain in chains):
            if jobs > 1:
                _round(stop, sampler, chains, jobs, bar)
            elif not all(advance(sampler, c, min(stop, c.iteration + ROUND), tell) for c in chains):
                return False
            save()
    except KeyboardInterrupt:  # between two iterations
        return False
    return True


def _round(stop: int, sampler: Sampler, chains: list[Chain], jobs: int, bar: Progress) -> None:
    """Some iterations of every chain in other processes; Ctrl-C loses them, earlier ones are complete."""
    moved = Parallel(n_jobs=jobs)(
        delayed(_advance_copy)(sampler, chain, min(stop, chain.iteration + 5 * ROUND)) for chain in chains
    )
    for chain, (new, accepted) in zip(chains, moved, strict=True):
        bar.update(new.iteration - chain.iteration, accepted=round(accepted))
        for name, values in new.kept.items():
            chain.kept.setdefault(name, []).extend(values)
        chain.rng, chain.state, chain.iteration, chain.mark = new.rng, new.state, new.iteration, new.mark


def _advance_copy(sampler: Sampler, chain: Chain, stop: int) -> tuple[Chain, float]:
    """:func:`advance` in another process: only the new records are returned, with the accepted count."""
    accepted: list[float] = []
    bare = replace(chain, kept={})
    with threadpool_limits(1):
        advance(sampler, bare, stop, lambda record: accepted.append(float(record["accepted"])))
    return bare, sum(accepted)


def _saver(file: Path | None, fingerprint: str, seed: str, chains: list[Chain]) -> Callable[[int, bool], None]:
    """A function that saves the chains at intervals, or when forced."""
    last = time.monotonic()

    def save(stage: int, must: bool) -> None:
        nonlocal last
        if file is not None and (must or time.monotonic() - last > SAVE_EVERY):
            saved.save(file, fingerprint, seed, chains, stage)
            last = time.monotonic()

    return save
