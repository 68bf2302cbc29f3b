"""How draws are divided into batches; that they do not depend on it is tested in test_guided."""

import pytest

from gpclass.orthant.batches import LARGE, ROOM, WIDE, _parts
from gpclass.orthant.uniforms import replicate_sizes


@pytest.mark.parametrize("n", [50, 500, 1070, LARGE + 1, 2000, 5000])
@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("M", [5, 400, 2400, 5315, 10_000, 50_000])
def test_batches_fit_into_memory_and_are_as_many_for_every_worker(n, M, workers):
    sizes = replicate_sizes(M, "frames", n)
    parts = _parts(sizes, n, workers)
    assert [size for part in parts for size in part] == sizes
    assert all(parts)
    room = 2 * ROOM if n <= LARGE else ROOM
    for part in parts:  # parts alike may have one randomisation more than fit
        assert n * (sum(part) - max(part)) <= room
    if 1 < len(parts) < len(sizes):
        assert len(parts) % workers == 0


def test_few_draws_stay_together_however_many_workers():
    """Threads would wait for each other."""
    assert len(_parts(replicate_sizes(2 * WIDE - 100, "frames", 100), 100, 2)) == 1
    assert len(_parts(replicate_sizes(2 * WIDE, "frames", 100), 100, 2)) == 2
