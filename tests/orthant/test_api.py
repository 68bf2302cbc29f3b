"""orthant_probability: every method against closed forms, calibrated errors, units, limits, bad input."""

import numpy as np
import pytest
from papers import truths
from scipy.special import log_ndtr, ndtr
from scipy.stats import multivariate_normal

from gpclass.orthant import METHODS, api, orthant_probability
from gpclass.orthant import bootstrap as bootstrap_module
from gpclass.orthant.bootstrap import bootstrap_run, predicted_error, single_suffices
from gpclass.orthant.box import Box, standard_form
from gpclass.orthant.sov import greedy_order
from tests.normal import box_probability

SAMPLERS = [name for name in METHODS if name != "ep"]


def linear(n=40, seed=1):
    x, y, *_ = truths.LinearProblem(n, 2, (0.0, 1.0), (0.5, 0.6)).draw(np.random.default_rng(seed))
    return truths.probit_orthant(np.outer(x, x), y), truths.linear_kernel_log_evidence(x, y)


def product(n, seed=1):
    d = truths.product_problem(n, np.random.default_rng(seed))
    return truths.product_correlation(d), truths.product_correlation_log_probability(d)


def equal(n):
    return truths.equicorrelated(n), truths.equicorrelated_log_probability(n)


def z_scores(S, truth, repeats=200, **settings):
    found = [orthant_probability(S, random_state=seed, **settings) for seed in range(repeats)]
    return np.array([(f.log_probability - truth) / f.standard_error for f in found])


def test_the_probability_is_beside_its_logarithm():
    found = orthant_probability(np.eye(3), random_state=0)
    assert found.probability == pytest.approx(1 / 8, rel=1e-6)
    assert orthant_probability(np.eye(3), lower=100.0, random_state=0).probability == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("method", SAMPLERS)
def test_methods_against_a_box_in_any_units(method):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((5, 5))
    C, mean = A @ A.T, rng.normal(0, 0.3, 5)
    lower, upper = np.array([-1, -np.inf, 0.2, -np.inf, -2.0]), np.array([2, 1.0, np.inf, np.inf, 0.5])
    truth = np.log(box_probability(C, lower, upper, mean))
    units = np.array([1e-6, 1.0, 1e5, 10.0, 1e-3])
    got = orthant_probability(
        C * np.outer(units, units), lower * units, upper * units, mean * units,
        method=method, random_state=1, return_samples=True,
    )  # fmt: skip
    assert abs(got.log_probability - truth) < 4 * got.standard_error + 1e-9
    assert got.standard_error < 0.02
    assert got.samples.shape == (got.n_samples, 5)
    v = got.samples / units
    assert ((v >= lower - 1e-9) & (v <= upper + 1e-9)).all()
    # the draws themselves: the mean of a coordinate against another method's
    other = orthant_probability(C, lower, upper, mean, n_samples=20_000, random_state=2, return_samples=True)
    w, u = (np.exp(x.log_weights - x.log_weights.max()) for x in (got, other))
    ours, theirs = w @ v / w.sum(), u @ other.samples / u.sum()
    spread = v.std(axis=0) / np.sqrt(min(got.ess, 2000))
    assert (np.abs(ours - theirs) < 5 * spread).all()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_smallest_orthants(method, n):
    A = np.random.default_rng(n).standard_normal((n, n))
    got = orthant_probability(A @ A.T, method=method, random_state=0)
    error = 0.1 if method == "ep" else 4 * got.standard_error + 1e-9
    assert abs(got.log_probability - np.log(truths.small_orthant_probability(A @ A.T))) < error


def test_ep_is_close_and_deterministic():
    S, truth = product(60)
    one, two = (orthant_probability(S, method="ep", random_state=s) for s in (0, 1))
    assert one.log_probability == two.log_probability
    assert one.converged
    assert np.isnan(one.standard_error)
    assert one.log_probability == pytest.approx(truth, abs=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("problem", [equal(20), product(30), linear(40)], ids=["equicorrelated", "product", "linear"])
def test_standard_errors_are_honest(problem):
    z = z_scores(*problem, n_samples=600)
    assert 0.8 < np.sqrt(np.mean(z**2)) < 1.25
    assert 0.85 <= np.mean(np.abs(z) < 1.645) <= 0.95
    # negative control: an error understated by half fails the same test
    assert np.mean(np.abs(2 * z) < 1.645) < 0.85


@pytest.mark.slow
def test_sov_errors_are_honest():
    z = z_scores(*equal(10), method="sov", n_samples=600)
    assert 0.8 < np.sqrt(np.mean(z**2)) < 1.25


@pytest.mark.slow
def test_hard_count_is_unbiased_and_the_soft_count_is_not():
    box, rng = standard_form(truths.equicorrelated(10, 0.9)), np.random.default_rng(0)
    truth = np.exp(truths.equicorrelated_log_probability(10, 0.9))
    bias = {}  # in standard errors
    for soft in (False, True):
        p = np.exp([bootstrap_run(box, 4, rng, soft=soft).log_p for _ in range(4000)])
        bias[soft] = (p.mean() - truth) / p.std() * np.sqrt(len(p))
    assert abs(bias[False]) < 3
    assert abs(bias[True]) > 3


def test_hard_count_states_its_error():
    S, truth = equal(6)
    z = z_scores(S, truth, repeats=100, method="bootstrap-hard", n_samples=2000)
    assert 0.6 < np.sqrt(np.mean(z**2)) < 1.2  # errs on the large side


def copied_histories(box: Box, M: int, rng: np.random.Generator, *, soft: bool) -> tuple[float, np.ndarray, np.ndarray]:
    """The paper's algorithm, histories copied at every step: log P, the points, and the first ancestor of each."""
    L, n = np.linalg.cholesky(box.S), box.n
    z, first, log_p = np.zeros((n, M)), np.arange(M), 0.0
    for k in range(n):
        m = L[k, :k] @ z[:k]
        z[k] = rng.standard_normal(M)
        x = m + L[k, k] * z[k]
        alive = np.flatnonzero((x > box.lower[k]) & (x < box.upper[k]))
        inside = ndtr((box.upper[k] - m) / L[k, k]) - ndtr((box.lower[k] - m) / L[k, k])
        log_p += np.log(inside.mean() if soft else len(alive) / M)
        chosen = np.concatenate([alive, alive[rng.integers(len(alive), size=M - len(alive))]])
        z, first = z[:, chosen], first[chosen]
    return log_p, L @ z[:, rng.permutation(M)], first


@pytest.mark.parametrize("soft", [True, False])
@pytest.mark.parametrize(
    ("S", "lower", "upper"),
    [
        (truths.equicorrelated(50, 0.7), 0.0, np.inf),  # few die at the end
        (truths.equicorrelated(61, 0.01), 0.0, np.inf),  # half of them, always
        (truths.equicorrelated(37, 0.5), -1.0, 2.0),
        (truths.equicorrelated(45, 0.5), -9.0, 9.0),  # none dies
        (truths.equicorrelated(3, 0.5), 0.0, np.inf),  # less than a block
    ],
)
def test_tree_of_histories_equals_copied_histories(S, lower, upper, soft):
    box, M = standard_form(S, lower, upper), 401
    run = bootstrap_run(box, M, np.random.default_rng(3), soft=soft, precision=np.float64)
    log_p, x, first = copied_histories(box, M, np.random.default_rng(3), soft=soft)
    assert run.log_p == pytest.approx(log_p, abs=1e-9)
    np.testing.assert_allclose(run.x, x, atol=1e-9)
    assert run.variance == pytest.approx(np.sum((np.bincount(first, minlength=M) - 1.0) ** 2) / M**2)


def test_single_precision_gives_the_same_points(monkeypatch):
    """The same normal numbers, rounded or not: hardly a point changes sides."""
    box = standard_form(truths.product_correlation(truths.product_problem(100, np.random.default_rng(0))))
    monkeypatch.setattr(bootstrap_module, "_normals", lambda rng, z: np.copyto(z, rng.standard_normal(len(z))))
    single, double = (
        bootstrap_run(box, 20_000, np.random.default_rng(0), soft=False, precision=kind).log_steps[:12]
        for kind in (np.float32, np.float64)
    )  # later steps differ by the noise of one changed point
    np.testing.assert_allclose(single, double, atol=1e-12)


def test_single_precision_only_where_rounding_is_small():
    def suffices(S, **limits):
        box = standard_form(S, **limits)
        return single_suffices(box, np.diag(np.linalg.cholesky(box.S)))

    assert suffices(truths.equicorrelated(500, 0.9))
    assert not suffices(truths.equicorrelated(50, 1 - 1e-6))  # conditional deviations of 1e-3
    assert not suffices(np.eye(10), lower=0.0, upper=1e-3)
    assert not suffices(np.eye(10), lower=-1e4)


@pytest.mark.slow
@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_hard_count_is_unbiased_in_either_precision(precision):
    box, rng = standard_form(truths.equicorrelated(20, 0.3)), np.random.default_rng(5)
    truth = truths.equicorrelated_log_probability(20, 0.3)
    p = np.exp([bootstrap_run(box, 2000, rng, soft=False, precision=precision).log_p - truth for _ in range(1000)])
    assert abs(p.mean() - 1) < 3 * p.std() / np.sqrt(len(p))
    assert p.std() / np.sqrt(len(p)) < 0.005


@pytest.mark.slow
def test_each_of_the_points_is_a_draw():
    """Also that at a given place, where a user may take the first few."""
    box = standard_form(truths.equicorrelated(12, 0.5))
    runs = [bootstrap_run(box, 100, np.random.default_rng(k), soft=False).x[0] for k in range(1500)]
    first, all_points = np.array([x[0] for x in runs]), np.array([x.mean() for x in runs])
    assert abs(np.mean(first - all_points)) < 3 * np.std(first - all_points) / np.sqrt(len(runs))


def test_predicted_error_of_the_paper():
    # A eq. 43-44 for independent coordinates, where they hold exactly
    bias, variance = predicted_error(np.log(np.full(10, 0.5)), 1000)
    assert bias == pytest.approx(-10 * 0.5 / (2 * 1000 * 0.5))
    assert variance == pytest.approx(10 / 1000)


def test_extinction_is_named():
    S, _ = linear(200)
    got = orthant_probability(S, method="bootstrap-hard", n_samples=2, random_state=0)
    assert got.log_probability == -np.inf
    assert not got.converged
    assert "coordinate" in got.message
    assert "guided" in got.message


def test_runs_are_averaged_in_p():
    S, truth = equal(8)
    got = orthant_probability(S, method="bootstrap-hard", n_samples=4000, runs=10, random_state=0)
    assert len(np.unique(got.group)) == 10
    assert abs(got.log_probability - truth) < 4 * got.standard_error


def test_beyond_the_smallest_float():
    n = 700
    got = orthant_probability(np.eye(n), lower=2.0, random_state=0, n_samples=50)
    assert got.log_probability == pytest.approx(n * log_ndtr(-2.0), rel=1e-9)
    assert got.log_probability < -1000 * np.log(10)


def test_far_tails_and_narrow_boxes():
    C = truths.equicorrelated(3, 0.3)
    far = orthant_probability(C, lower=30.0, random_state=0)
    assert np.isfinite(far.log_probability)
    assert far.log_probability < -400
    narrow = orthant_probability(C, lower=-1e-5, upper=1e-5, random_state=0)
    density = multivariate_normal(np.zeros(3), C).logpdf(np.zeros(3))
    assert narrow.log_probability == pytest.approx(density + 3 * np.log(2e-5), abs=1e-6)


def test_singular_and_constant():
    ones = orthant_probability(np.ones((4, 4)), random_state=0)  # one variable, four times
    assert ones.log_probability == pytest.approx(np.log(0.5), abs=1e-12)
    assert ones.details["jitter"] == 0
    fixed = np.diag([1.0, 0.0])
    assert orthant_probability(fixed, mean=[0.0, 1.0], random_state=0).log_probability == pytest.approx(np.log(0.5))
    impossible = orthant_probability(fixed, mean=[0.0, -1.0], random_state=0)
    assert impossible.log_probability == -np.inf
    assert "without variance" in impossible.message


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_multiples_are_one_coordinate(method):
    """Correlations of ±1: the limits of both hold for one coordinate, in any units, and draws have both."""
    none = orthant_probability([[1.0, -1.0], [-1.0, 1.0]], method=method, random_state=0)
    assert none.log_probability == -np.inf
    assert "multiples" in none.message
    # x_1 in (0.2, 0.3) and x_2 = x_1 > 0.3 − 1e-9: a slice, of which the sum of two tails shows nothing
    slice_ = orthant_probability(
        np.ones((2, 2)), [0.2, 0.3 - 1e-9], [0.3, np.inf], method=method, n_samples=None if method == "ep" else 10**6
    )  # fmt: skip
    if not method.startswith("bootstrap"):
        assert slice_.log_probability == pytest.approx(np.log(1e-9 * np.exp(-0.045) / np.sqrt(2 * np.pi)), abs=1e-6)
    # −2 x_1 in (−2, −1) and x_1 > 0.6 beside an independent one
    w = np.array([1.0, -2.0, 0.0])
    C, mean = np.outer(w, w) + np.diag([0.0, 0.0, 1.0]), np.array([0.0, 5.0, 0.0])
    got = orthant_probability(
        C, [0.6, 3.0, 0.0], [np.inf, 4.0, np.inf], mean, method=method, random_state=1, order=[1, 2, 0]
        if method not in ("ep", "bootstrap-hard") else None, return_samples=True,
    )  # fmt: skip
    truth = np.log(0.5 * (np.exp(log_ndtr(1.0)) - np.exp(log_ndtr(0.6))))
    assert abs(got.log_probability - truth) < 4 * np.nan_to_num(got.standard_error) + 1e-6
    if got.samples is not None:
        x, y, z = got.samples.T
        np.testing.assert_allclose(y, 5 - 2 * x, atol=1e-12)
        assert ((x > 0.6) & (x < 1) & (z > 0)).all()


def planes(*angles):
    V = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return V @ V.T


@pytest.mark.parametrize("method", ["guided", "sov"])
def test_singular_covariances_state_what_jitter_does(method):
    """Half planes through the origin: the probability is the angle that they leave, 0 if they leave none."""
    for gap in (2.0, 0.1):  # the third and the fourth are implied by the first two
        C = planes(0.0, np.pi - gap, 0.5 * (np.pi - gap), 0.3 * (np.pi - gap))
        got = orthant_probability(C, method=method, random_state=0)
        assert got.details["jitter"] > 0
        assert got.log_probability == pytest.approx(np.log(gap / (2 * np.pi)), abs=4 * got.standard_error)
        assert got.converged
    for angles in ((0.0, 2.0, 4.0), (0.0, 0.5, np.pi, 1.0), (0.0, 2.0, 4.0, 1.0, 5.0)):  # nothing is left
        none = orthant_probability(planes(*angles), method=method, random_state=0)
        assert none.log_probability == -np.inf
    # a sliver, a triangle of height 3d: jitter decides its size, which the error and the message state
    for d in (1e-3, 1e-6) if method == "guided" else ():
        got = orthant_probability(planes(0.0, 2 * np.pi / 3, 4 * np.pi / 3), -d, random_state=0)
        truth = np.log(3 * np.sqrt(3) * d**2 / (2 * np.pi))
        assert abs(got.log_probability - truth) < 4 * got.standard_error
        assert got.converged == (d > 1e-4)
        assert ("jitter" in got.message) == (d < 1e-4)


def test_tol():
    S, truth = equal(30)
    met = orthant_probability(S, tol=0.002, random_state=0)
    assert met.converged
    assert met.standard_error <= 0.002
    assert abs(met.log_probability - truth) < 4 * met.standard_error
    short = orthant_probability(S, tol=1e-6, max_samples=2000, random_state=0)
    assert not short.converged
    assert short.n_samples <= 2000
    assert "tol" in short.message


@pytest.mark.parametrize("method", ["guided", "sov", "bootstrap-hard"])
def test_draws_that_count_are_not_looked_at(method, monkeypatch):
    """The number is decided by pilots, which do not count."""
    name, place = ("bootstrap", 1) if "bootstrap" in method else ("batches", 2)
    right, drawn = getattr(api, name), []
    monkeypatch.setattr(api, name, lambda *args, **kwargs: drawn.append(args[place]) or right(*args, **kwargs))
    got = orthant_probability(equal(8)[0], method=method, tol=0.02, max_samples=20_000, random_state=0)
    assert got.converged
    assert got.standard_error < 0.03
    assert sum(drawn[1:] if name == "bootstrap" else drawn[-1:]) == got.n_samples < sum(drawn)


@pytest.mark.parametrize("method", ["guided", "bootstrap-soft"])
def test_the_message_is_about_the_error_of_the_final_draws(method):
    """Whatever the pilots had predicted."""
    S, tol = equal(6)[0], {"guided": 6.4e-4, "bootstrap-soft": 0.039}[method]
    found = [orthant_probability(S, method=method, tol=tol, max_samples=3000, random_state=seed) for seed in range(12)]
    above = [one.standard_error > tol for one in found]
    assert 0 < sum(above) < len(above)
    for one in found:
        assert one.converged == (one.standard_error <= tol)
        assert ("above tol" in one.message) == (one.standard_error > tol)
        assert one.converged or one.n_samples < 3000 or "max_samples" in one.message


@pytest.mark.parametrize("method", ["guided", "bootstrap-hard"])
def test_pilots_keep_no_points(method, monkeypatch):
    restored, right = [], Box.restore
    monkeypatch.setattr(Box, "restore", lambda box, x: restored.append(x.shape[1]) or right(box, x))
    kept, run = [], api.bootstrap
    monkeypatch.setattr(api, "bootstrap", lambda *args, **kw: kept.append(kw["keep"]) or run(*args, **kw))
    got = orthant_probability(equal(6)[0], method=method, tol=0.02, return_samples=True, random_state=0)
    assert got.samples.shape == (got.n_samples, 6)
    assert sum(restored) == got.n_samples
    assert kept[:1] == ([] if method == "guided" else [False])
    assert all(kept[1:])


def test_repeatable_and_order_free():
    S, truth = product(40)
    a, b = (orthant_probability(S, random_state=7) for _ in "ab")
    assert a.log_probability == b.log_probability
    for order in ("given", "random", "interleaved", np.arange(40)[::-1]):
        got = orthant_probability(S, order=order, random_state=7)
        assert abs(got.log_probability - truth) < 5 * got.standard_error


@pytest.mark.slow
def test_labels_sum_to_one():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((6, 4))
    K = A @ A.T
    labels = 2.0 * ((np.arange(64)[:, None] >> np.arange(6)) & 1) - 1
    log_ps = [
        orthant_probability(truths.probit_orthant(K, y), random_state=0, n_samples=400).log_probability for y in labels
    ]
    assert np.exp(log_ps).sum() == pytest.approx(1, abs=0.005)


def test_heavy_tails_are_defended():
    got = orthant_probability(truths.equicorrelated(100), random_state=0)
    assert got.details["defensive_share"] > 0
    assert got.converged
    assert np.exp(got.log_weights.max() - got.log_probability) < 3


def test_nearly_even_weights():
    """Tails of equal weights have no shape to fit, and rounding is no tail."""
    rng = np.random.default_rng(0)
    for seed in range(24):
        n = (1, 2, 3, 5)[seed % 4]
        A, lower = rng.standard_normal((n, n)), rng.standard_normal(n)
        got = orthant_probability(A @ A.T + 0.1 * np.eye(n), lower, lower + 1e-3, random_state=seed // 4)
        assert got.khat == -np.inf
        assert "tail" not in got.message


def test_no_warning_of_tails_that_do_not_matter():
    """Three rows whose weights are even to a few per cent: their errors are honest, k-hat or not."""
    rng, warned, z = np.random.default_rng(0), 0, []
    for seed in range(60):
        A = rng.standard_normal((3, 3))
        C = A @ A.T + rng.choice([0.1, 1.0]) * np.eye(3)
        got = orthant_probability(C, random_state=seed)
        if got.ess > 0.98 * got.n_samples:
            warned += not got.converged
            truth = np.log(truths.small_orthant_probability(C))
            z.append((got.log_probability - truth) / (got.standard_error + 1e-12))
    assert len(z) > 40
    assert warned == 0
    assert np.mean(np.abs(z) < 2) > 0.85


def test_greedy_order_takes_the_hardest_first():
    order = greedy_order(standard_form(np.diag([1.0, 2.0, 3.0]), lower=[-1.0, 3.0, 0.0]))
    assert list(order) == [1, 2, 0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lower": 1.0, "upper": 0.0}, "reversed"),
        ({"lower": 0.0, "upper": 0.0}, "empty"),
        ({"lower": [0.0, np.nan]}, "NaN"),
        ({"mean": [0.0, np.inf]}, "finite"),
        ({"lower": np.inf}, "reversed|room|equal"),
        ({"cov": [[1.0, np.nan], [np.nan, 1.0]]}, "NaN"),
        ({"cov": [[1.0, 0.5], [0.2, 1.0]]}, "not symmetric"),
        ({"cov": [[1.0, 2.0], [2.0, 1.0]]}, "indefinite"),
        ({"cov": [[-1.0, 0.0], [0.0, 1.0]]}, "negative variance"),
        ({"cov": -0.9 * np.ones((4, 4)) + 1.9 * np.eye(4)}, "eigenvalue"),
        ({"cov": np.ones((2, 3))}, "square"),
        ({"cov": np.empty((0, 0))}, "at least one"),
        ({"lower": [0.0, 0.0, 0.0]}, "lower"),
        ({"method": "guide"}, "did you mean 'guided'"),
        ({"n_samples": 0}, "at least 1"),
        ({"n_samples": 2.5}, "whole number"),
        ({"tol": 0.0}, "positive"),
        ({"tol": 0.1, "n_samples": 10}, "not both"),
        ({"points": "halton"}, "lattice"),
        ({"order": "sorted"}, "interleaved"),
        ({"order": [0, 0]}, "permutation"),
    ],
)
def test_bad_input(change, message):
    settings = {"cov": np.eye(2), **change}
    with pytest.raises(ValueError, match=message):
        orthant_probability(settings.pop("cov"), **settings)


def test_far_out_and_odd_scales():
    """Rounding that could matter is said; scales far from one change nothing; sov tells when it is lost."""
    S = np.array([[1.0, 0.5], [0.5, 1.0]])
    far = orthant_probability(S, lower=1e5, random_state=0)
    assert not far.converged
    assert far.standard_error > 100
    assert not orthant_probability(S, lower=1e160, random_state=0).converged
    for size in (1e-200, 1e200):
        assert orthant_probability(size * S, random_state=0).log_probability == pytest.approx(np.log(1 / 3), abs=1e-3)
    with pytest.raises(ValueError, match="symmetric"):
        orthant_probability(1e200 * np.array([[1.0, 0.5], [0.1, 1.0]]))
    E = np.full((50, 50), 0.5)
    np.fill_diagonal(E, 1.0)
    lost = orthant_probability(E, lower=100.0, method="sov", random_state=0)
    assert not lost.converged
    assert "effective" in lost.message


def test_an_estimate_is_printed_as_a_table():
    found = orthant_probability(np.eye(3), random_state=0)
    assert "probability                0.125" in repr(found)
    assert "converged                  yes" in repr(found)
    assert len(repr(found).splitlines()) < 12
    assert found._repr_html_().startswith("<table>")
    assert "standard error of the log  unknown" in repr(orthant_probability(np.eye(3), method="ep"))
