"""Chains on disk: one .npz file of arrays and JSON, no pickle.

The file holds each chain's state, records and the state of its random generator, so that a resumed chain is
the chain that would have been. It is written beside itself and moved into place, so a crash leaves the old
one whole. A fingerprint of the data and settings is checked: chains of one problem are never continued on
another.
Cost: one write of what has been kept. Fails when: the file belongs to something else (refused, with the
reason).
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpclass._typing import Array

if TYPE_CHECKING:
    from gpclass.hyper.chains import Chain

VERSION = 2


def fingerprint(*parts: Any) -> str:
    """A short digest of arrays and of the representations of other things."""
    digest = hashlib.sha256()
    for part in parts:
        data = np.ascontiguousarray(part).tobytes() if isinstance(part, np.ndarray) else repr(part).encode()
        digest.update(hashlib.sha256(data).digest())
    return digest.hexdigest()[:32]


def save(path: Path, fingerprint: str, chains: list[Chain], stage: int) -> None:
    """Write all chains."""
    arrays: dict[str, Array] = {}
    heads = []
    for k, chain in enumerate(chains):
        for name, value in chain.state.items():
            arrays[f"{k}/state/{name}"] = value
        for name, values in chain.kept.items():
            arrays[f"{k}/kept/{name}"] = np.stack(values)
        heads.append({"iteration": chain.iteration, "rng": chain.mark})
    head = {"version": VERSION, "fingerprint": fingerprint, "stage": stage, "chains": heads}
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(path.name + ".part")
    with draft.open("wb") as handle:
        np.savez(handle, head=np.array(json.dumps(head)), **arrays)  # type: ignore[arg-type]  # names are ours
    os.replace(draft, path)


def load(path: Path, fingerprint: str, n_chains: int) -> tuple[list[Chain], int]:
    """The chains of a file and the stage they were in."""
    from gpclass.hyper.chains import Chain  # it imports this module

    try:
        with np.load(path, allow_pickle=False) as file:
            head = json.loads(str(file["head"]))
            arrays = {name: file[name] for name in file.files if name != "head"}
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(
            f"checkpoint {str(path)!r} cannot be read ({error}); remove it or give another path"
        ) from error
    if (
        head.get("version") != VERSION
        or head["fingerprint"] != fingerprint
        or len(head["chains"]) != n_chains
    ):
        raise ValueError(
            f"checkpoint {str(path)!r} holds chains of other data or settings; remove it or give another path"
        )
    chains = []
    for k, one in enumerate(head["chains"]):
        rng = np.random.default_rng()
        rng.bit_generator.state = one["rng"]
        state = {name.split("/", 2)[2]: a for name, a in arrays.items() if name.startswith(f"{k}/state/")}
        kept = {name.split("/", 2)[2]: list(a) for name, a in arrays.items() if name.startswith(f"{k}/kept/")}
        chains.append(Chain(rng, state, one["iteration"], kept, one["rng"]))
    return chains, int(head["stage"])
