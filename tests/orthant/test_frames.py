"""Point sets of whole frames: their sizes, and what they integrate."""

import numpy as np
import pytest

from gpclass.orthant.uniforms import FEWEST_FRAMES, REPLICATES, frame, normals, replicate_sizes, whole_frames


@pytest.mark.parametrize("n", [3, 50, 333])
@pytest.mark.parametrize("share", [1.0, 0.95, 0.9])
@pytest.mark.parametrize("frames", [FEWEST_FRAMES, 13, 26, 200])
def test_randomisations_are_whole_frames(n, share, frames):
    M = frames * frame(n, share)
    sizes = np.array(replicate_sizes(M, "frames", n, share))
    assert sizes.sum() == M
    assert len(sizes) == min(frames, REPLICATES)
    assert np.all(sizes % frame(n, share) == 0)
    if frames <= REPLICATES:
        assert np.all(np.rint(share * sizes) == 2 * n)  # those that are not from another proposal


def test_few_points_are_as_before():
    M = FEWEST_FRAMES * frame(400) - 1
    assert replicate_sizes(M, "frames", 400) == replicate_sizes(M, "perpendicular", 400)
    assert whole_frames(M, 400) == M


@pytest.mark.parametrize("M", [4800, 5000, 5199, 5201, 9999])
def test_a_number_is_rounded_to_whole_frames(M):
    whole = whole_frames(M, 400)
    assert whole % 800 == 0
    assert abs(whole - M) <= 400
    assert sum(replicate_sizes(M, "frames", 400)) == M  # a number that is asked for is kept


def spread(n, size, count=400):
    """Variance per draw of the mean of a quadratic function over one randomisation."""
    rng = np.random.default_rng(0)
    v = rng.standard_normal(n) / np.sqrt(n)
    means = [np.mean((v @ normals("frames", n, size, rng)) ** 2) for _ in range(count)]
    return size * np.var(means)


def test_whole_frames_integrate_quadratic_functions_and_others_do_not():
    # Of 38 pairs 30 are a frame, of variance 3/30, and 8 are like independent ones: twice the variance per draw.
    whole, more = spread(30, 60), spread(30, 76)
    assert whole < 0.7 * more  # half, and four standard errors of a ratio of two variances from 400 each
    assert spread(30, 120) == pytest.approx(whole, rel=0.3)


def test_whole_frames_keep_to_the_largest_number():
    assert whole_frames(1060, 50, most=1060) == 1000
    assert whole_frames(1060, 50) == 1100
