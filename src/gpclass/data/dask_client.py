"""The open Dask client, and the error for a lost one."""

from __future__ import annotations

import sys
from typing import Any

from gpclass.names import optional


class ClientGoneError(RuntimeError):
    """The Dask client or its workers are no longer available."""


def distributed_package() -> Any:
    """The package distributed."""
    return optional("distributed", "fitting on Dask workers", "dask")


def environment_client() -> Any:
    """The open client, or None; None also inside a task, which would wait for itself."""
    distributed = distributed_package()
    try:
        distributed.get_worker()
        return None
    except (ValueError, AttributeError):
        pass
    try:
        return distributed.default_client()
    except ValueError:
        return None


def client_gone(why: str) -> ClientGoneError:
    """The error of a fit whose client is lost."""
    return ClientGoneError(
        f"the Dask client that held the data is lost ({why}); nothing was changed: open a client, "
        "client = distributed.Client(...), and fit again"
    )


def check_futures(collection: Any) -> None:
    """Raise for a Dask collection that was persisted on a client that has been closed."""
    graph = getattr(collection, "__dask_graph__", None)
    if graph is None or "distributed" not in sys.modules:  # without it nothing was persisted on workers
        return
    future = distributed_package().Future
    if any(isinstance(part, future) and part.status in ("cancelled", "lost") for part in graph().values()):
        raise ClientGoneError(
            f"the Dask {type(collection).__name__} was persisted on a client that has been closed, and its rows were "
            "lost: create the collection again, and persist it on a client that stays open during the fit"
        )
