"""Chains on disk: one .npz file of arrays and JSON, no pickle.

The file holds each chain's state, records and the state of its random generator, so that a resumed chain equals the
uninterrupted one. A crash while writing leaves the old file intact (:mod:`gpclass.numerics.files`).
Cost: one write of the kept records. Fails when: the file is damaged, or its fingerprint is of other data or settings
(rejected, with the reason and the remedy).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpclass._typing import Array
from gpclass.numerics.files import replacing

if TYPE_CHECKING:
    from gpclass.hyper.chains import Chain

VERSION = 4


def save(path: Path, fingerprint: str, seed: str, chains: list[Chain], stage: int) -> None:
    """Write all chains, which began from ``seed``; stage 2 are chains that are complete."""
    arrays: dict[str, Array] = {}
    heads = []
    for k, chain in enumerate(chains):
        for name, value in chain.state.items():
            arrays[f"{k}/state/{name}"] = value
        for name, values in chain.kept.items():
            arrays[f"{k}/kept/{name}"] = np.stack(values)
        heads.append({"iteration": chain.iteration, "rng": chain.mark})
    head = {"version": VERSION, "fingerprint": fingerprint, "seed": seed, "stage": stage, "chains": heads}
    write_archive(path, head, arrays)


def load(path: Path, fingerprint: str, n_chains: int) -> tuple[list[Chain], int, str]:
    """The chains of a file, the stage they were in, and the seed they began from, empty if it is not known."""
    head, arrays = read_archive(path)
    found = head.get("version"), head.get("fingerprint"), len(head.get("chains", ()))
    if found != (VERSION, fingerprint, n_chains):
        raise of_others(path, "chains")
    try:
        chains = [_chain(one, f"{k}/", arrays) for k, one in enumerate(head["chains"])]
        return chains, int(head["stage"]), str(head.get("seed", ""))
    except Exception as error:  # any error of an incomplete head
        raise damaged(path, error) from error


def _chain(head: Mapping[str, Any], prefix: str, arrays: Mapping[str, Array]) -> Chain:
    """One chain, whose arrays have names that begin with ``prefix``."""
    from gpclass.hyper.chains import Chain  # it imports this module

    rng = np.random.default_rng()
    rng.bit_generator.state = head["rng"]
    mine = {name.removeprefix(prefix): a for name, a in arrays.items() if name.startswith(prefix)}
    state = {name.removeprefix("state/"): a for name, a in mine.items() if name.startswith("state/")}
    kept = {name.removeprefix("kept/"): list(a) for name, a in mine.items() if name.startswith("kept/")}
    return Chain(rng, state, int(head["iteration"]), kept, head["rng"])


def write_archive(path: Path, head: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Write a head, as JSON, and arrays to one .npz file."""
    with replacing(path) as draft, draft.open("wb") as file:
        np.savez(file, head=np.array(json.dumps(head)), **arrays)


def read_archive(path: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    """The head and the arrays of a file that :func:`write_archive` wrote; a damaged one is a ValueError."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        head = json.loads(str(arrays.pop("head")))
        if not isinstance(head, dict):
            raise ValueError("its head is not a dictionary")
    except Exception as error:  # any error of a damaged file, from zipfile, zlib, json or numpy
        raise damaged(path, error) from error
    return head, arrays


def of_others(path: Path, what: str, why: str = "other data or settings") -> ValueError:
    """The error of a checkpoint that does not belong to this fit."""
    problem = f"checkpoint {str(path)!r} holds {what} of {why}"
    return ValueError(f"{problem}; remove it or give another path")


def damaged(path: Path, error: Exception) -> ValueError:
    """The error of a checkpoint that cannot be read."""
    why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return ValueError(f"checkpoint {str(path)!r} cannot be read ({why}); remove it or give another path")
