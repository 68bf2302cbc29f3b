"""The sampler itself: equal to the slow obvious one, unbiased, exact densities, honest weights."""

import joblib
import numpy as np
import pytest
from papers import truths
from scipy.special import logsumexp, ndtr, ndtri
from scipy.stats import multivariate_normal, norm

from gpclass.orthant import batches, guided_draws, half_lines
from gpclass.orthant.box import BoxFactors, standard_form
from gpclass.orthant.earlier import earlier_plan
from gpclass.orthant.guided import draw, log_weight, mixture_draws
from gpclass.orthant.plan import bare_plan, coordinate_order, fit_sites, make_plan, reviewed, tail_index
from gpclass.orthant.proposal import propose
from gpclass.orthant.uniforms import (
    IN_DIRECTIONS,
    POINT_SETS,
    mirrored_pairs,
    normals,
    point_sets,
    primes,
    replicate_sizes,
    spanned,
)
from gpclass.orthant.weights import effective_size, heavy, log_mean, pareto_khat, relative_error
from gpclass.propagation.sites import Sites
from tests.normal import box_probability


def random_box(n, seed=0, kind="mixed"):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, n + 2))
    lower = rng.normal(-0.5, 0.5, n)
    upper = lower + rng.uniform(0.5, 3.0, n)
    if kind == "half":
        lower[::2], upper[1::2] = -np.inf, np.inf
        lower[2::6], upper[2::6] = -np.inf, np.inf
    if kind == "mixed":
        lower[::4], upper[1::4] = -np.inf, np.inf
        lower[2::8], upper[2::8] = -np.inf, np.inf
    return standard_form(A @ A.T, lower, upper, rng.normal(0, 0.3, n))


def slow_draws(S, sites, lower, upper, U):
    """One coordinate of one draw at a time, straight from the formulas, no blocks, no logs of tails."""
    n, M = U.shape
    T, h = sites.precision, sites.shift
    P = np.linalg.inv(np.linalg.inv(S) + np.diag(T))
    mu = P @ h
    L = np.linalg.cholesky(P)
    x, log_w = np.zeros((n, M)), np.zeros(M)
    for j in range(M):
        z = np.zeros(n)
        for k in range(n):
            m, s2 = mu[k] + L[k, :k] @ z[:k], L[k, k] ** 2
            c2 = 1 / (1 / s2 - T[k])
            mc, c = c2 * (m / s2 - h[k]), np.sqrt(c2)
            a, b = ndtr(-(lower[k] - mc) / c), ndtr(-(upper[k] - mc) / c)  # upper tails
            site = -0.5 * np.log(1 + c2 * T[k]) + 0.5 * (c2 * h[k] ** 2 + 2 * mc * h[k] - mc**2 * T[k]) / (
                1 + c2 * T[k]
            )
            log_w[j] += np.log(a - b) - site
            x[k, j] = mc - c * ndtri(b + U[k, j] * (a - b))
            z[k] = (x[k, j] - m) / L[k, k]
    return x, log_w


def test_equals_the_slow_sampler():
    box = random_box(70, kind="half")  # more than two blocks
    sites = fit_sites(box).sites
    U = np.random.default_rng(1).random((70, 5))
    got = guided_draws(box.S, sites, box.lower, box.upper, U)
    x, log_w = slow_draws(box.S, sites, box.lower, box.upper, U)
    np.testing.assert_allclose(got.log_w, log_w, atol=1e-9)
    np.testing.assert_allclose(got.x, x, atol=1e-9)


def test_draws_stay_in_the_box():
    box = random_box(70)
    got = guided_draws(box.S, fit_sites(box).sites, box.lower, box.upper, np.random.default_rng(1).random((70, 50)))
    inside = (box.lower[:, None] <= got.x) & (got.x <= box.upper[:, None])
    assert inside.all()


def test_any_sites_are_unbiased():
    box = random_box(3, kind="box")
    truth = box_probability(box.S, box.lower, box.upper)
    rng = np.random.default_rng(0)
    for sites in (
        Sites.flat(3),
        Sites(np.array([0.5, 2.0, 0.1]), np.array([1.0, -1.0, 0.3])),
        fit_sites(box).sites,
    ):
        got = guided_draws(box.S, sites, box.lower, box.upper, rng.random((3, 20_000)))
        p = np.exp(got.log_sites + got.log_w)
        assert abs(p.mean() - truth) < 4 * p.std() / np.sqrt(20_000) + 1e-11  # the truth's own rounding


def test_wrong_weights_are_noticed():
    """Negative control: leaving the sites' mass out is seen at once."""
    box = random_box(3, kind="box")
    truth = box_probability(box.S, box.lower, box.upper)
    sites = Sites(np.array([0.5, 2.0, 0.1]), np.array([1.0, -1.0, 0.3]))
    got = guided_draws(box.S, sites, box.lower, box.upper, np.random.default_rng(0).random((3, 20_000)))
    p = np.exp(got.log_w)
    assert abs(p.mean() - truth) > 10 * p.std() / np.sqrt(20_000)


def test_log_weight_of_own_draws_is_the_weight():
    box = random_box(45, seed=3)
    proposal = propose(box.S, fit_sites(box).sites, box.lower, box.upper)
    x, log_w = draw(proposal, np.random.default_rng(0).random((45, 30)))
    np.testing.assert_allclose(log_weight(proposal, x), log_w + proposal.log_sites, atol=1e-8)


def test_log_weight_is_a_density_ratio():
    """w_j(x) g_j(x) = N(x; 0, S) for every proposal j, so that w_1/w_2 = g_2/g_1."""
    box = standard_form(truths.equicorrelated(2))
    ep = fit_sites(box)
    x = np.array([[0.3, 1.7], [2.0, 0.1]])
    for sites in (ep.sites, ep.widened(0.0), Sites.flat(2)):
        proposal = propose(box.S, sites, box.lower, box.upper)
        m1 = proposal.pull[0] * proposal.mean[0] - proposal.push[0]
        m = proposal.mean[1] + proposal.L[1, 0] * (x[0] - proposal.mean[0]) / proposal.L[0, 0]
        m2 = proposal.pull[1] * m - proposal.push[1]
        log_g = sum(
            norm.logpdf(v, mean, c) - norm.logcdf(mean / c)
            for v, mean, c in ((x[0], m1, proposal.c[0]), (x[1], m2, proposal.c[1]))
        )
        target = multivariate_normal(np.zeros(2), box.S).logpdf(x.T)
        np.testing.assert_allclose(log_weight(proposal, x) + log_g, target, atol=1e-9)


def test_mixture_bounds_the_weights():
    box = standard_form(truths.equicorrelated(100))
    ep = fit_sites(box)
    assert tail_index(ep) > 0.7
    rng = np.random.default_rng(0)
    alone = draw(propose(box.S, ep.sites, box.lower, box.upper), rng.random((100, 4000)))[1]
    plan = bare_plan(box, ep)
    assert len(plan.shares) == 2
    assert plan.bounded
    mixed = plan.draw("random", [4000], rng)[1]
    assert heavy(alone)
    assert np.exp(mixed.max() - log_mean(mixed)) < 3 < np.exp(alone.max() - log_mean(alone))
    assert abs(log_mean(mixed) + np.log(101)) < 4 * relative_error(mixed, np.arange(4000))


def test_balance_heuristic_of_one_proposal_is_that_proposal():
    box = random_box(10)
    proposal = propose(box.S, fit_sites(box).sites, box.lower, box.upper)
    U = np.random.default_rng(0).random((10, 8))
    x, log_w = mixture_draws([proposal, proposal], [U[:, :4], U[:, 4:]])
    x1, log_w1 = draw(proposal, U)
    np.testing.assert_allclose(x, x1)
    np.testing.assert_allclose(log_w, log_w1 + proposal.log_sites, atol=1e-9)


def test_resampling_stays_unbiased():
    S = truths.equicorrelated(40, 0.3)
    box = standard_form(S)
    truth = truths.equicorrelated_log_probability(40, 0.3)
    flat, rng = Sites.flat(40), np.random.default_rng(0)
    group = np.repeat(np.arange(100), 50)
    got = guided_draws(box.S, flat, box.lower, box.upper, rng.random((40, 5000)), group, resample=rng)
    assert len(np.unique(got.x[0])) < 5000  # somebody was resampled
    z = (log_mean(got.log_w) - truth) / relative_error(got.log_w, group)
    assert abs(z) < 4


def test_draws_are_the_truncated_gaussian():
    box = standard_form(truths.equicorrelated(2))
    plan = make_plan(box, fit_sites(box), np.random.default_rng(0))
    x, log_w, _ = plan.draw("random", [40_000], np.random.default_rng(1))
    w = np.exp(log_w - logsumexp(log_w))
    # E[v_1 | v > 0] = φ-moment of the positive quadrant: (1 + ρ)/(2√(2π) P)
    truth = 1.5 / (2 * np.sqrt(2 * np.pi) / 3)
    mean = w @ x[0]
    assert abs(mean - truth) < 4 * np.sqrt((w**2) @ (x[0] - mean) ** 2)


@pytest.mark.parametrize("defend", [False, True])
def test_batches_and_workers_change_no_draw(monkeypatch, defend):
    box = standard_form(truths.equicorrelated(30))
    plan = bare_plan(box, fit_sites(box), defend=defend)
    whole = next(batches.batches(plan, "lattice", 1000, np.random.default_rng(3)))
    monkeypatch.setattr(batches, "ROOM", 30 * 100)
    seen, workers, jobs = [], [], batches._jobs
    monkeypatch.setattr(batches, "_jobs", lambda n_jobs: workers.append(n_jobs) or jobs(n_jobs))
    monkeypatch.setattr(batches, "allowed_threads", lambda: 3)
    for n_jobs in (None, 2):
        with joblib.parallel_config(n_jobs=n_jobs):
            parts = list(batches.batches(plan, "lattice", 1000, np.random.default_rng(3)))
        assert len(parts) == 6  # five fit, and every worker has as many
        seen.append([np.concatenate(part, axis=-1) for part in zip(*parts, strict=True)])
    assert workers == [3, 2]
    for one, two in zip(*seen, strict=True):
        np.testing.assert_array_equal(one, two)
    assert np.array_equal(np.bincount(seen[0][2]), np.full(25, 40))
    order = [np.argsort(found[2], kind="stable") for found in (seen[0], whole)]  # shares stand batch by batch
    for part, all_at_once in zip(seen[0], whole, strict=True):
        np.testing.assert_allclose(part[..., order[0]], all_at_once[..., order[1]], rtol=1e-10)


@pytest.mark.parametrize("kind", POINT_SETS)
def test_point_sets_are_uniform_and_repeatable(kind):
    first, again = (np.hstack(list(point_sets(kind, 40, [101] * 20, np.random.default_rng(5)))) for _ in "ab")
    np.testing.assert_array_equal(first, again)
    assert first.shape == (40, 2020)
    assert first.min() > 0
    assert first.max() < 1
    np.testing.assert_allclose(first.mean(axis=1), 0.5, atol=4 / np.sqrt(12 * 2020))


def test_primes_and_replicates():
    np.testing.assert_array_equal(primes(6), [2, 3, 5, 7, 11, 13])
    assert len(primes(5000)) == 5000
    assert sum(replicate_sizes(1003)) == 1003
    assert replicate_sizes(3) == [3]


def test_diagnostics():
    assert effective_size(np.zeros(10)) == pytest.approx(10)
    assert effective_size(np.array([0.0, -np.inf])) == pytest.approx(1)
    assert np.isnan(relative_error(np.zeros(5), np.zeros(5, dtype=int)))
    assert np.isnan(pareto_khat(np.zeros(10)))
    assert pareto_khat(np.zeros(1000)) == -np.inf
    capped = np.minimum(np.linspace(-3, 1, 2000), 0.5)  # uneven, but the largest are equal: no tail
    assert pareto_khat(capped) == -np.inf
    pareto = np.random.default_rng(0).pareto(1.0, 4000)  # shape k = 1
    assert pareto_khat(np.log(pareto)) == pytest.approx(1.0, abs=0.25)


def test_orders():
    box = standard_form(truths.probit_orthant(np.full((6, 6), 3.0), np.array([1.0, 1, 1, -1, -1, -1])))
    rng = np.random.default_rng(0)
    place = coordinate_order("interleaved", box, rng)
    assert sorted(place) == list(range(6))
    assert all(a != b for a, b in zip(place[:-1] < 3, place[1:] < 3, strict=True))
    assert list(coordinate_order([5, 4, 3, 2, 1, 0], box, rng)) == [5, 4, 3, 2, 1, 0]
    with pytest.raises(ValueError, match="permutation"):
        coordinate_order([0, 0, 1, 2, 3, 4], box, rng)


@pytest.mark.parametrize("limits", [(0.0, np.inf), (-1.0, 2.0), (4.0, np.inf), (6.0, 6.5), (-1e-4, 1e-4), (-9.0, 1.0)])
def test_box_factors(limits):
    low, high = limits
    factors = BoxFactors(np.array([low]), np.array([high]))
    mean, var = 0.4, 1.7
    u = np.linspace(low, min(high, low + 12), 400_001)
    f = norm.pdf(u, mean, np.sqrt(var))
    mass = np.trapezoid(f, u)
    truth_mean = np.trapezoid(f * (u - low), u) / mass + low
    truth_var = np.trapezoid(f * (u - truth_mean) ** 2, u) / mass
    for log_z, m, v in (
        factors.tilted_one(0, mean, var),
        tuple(x[0] for x in factors.tilted(np.array([mean]), np.array([var]))),
    ):
        assert log_z == pytest.approx(np.log(mass), abs=1e-8)
        assert m == pytest.approx(truth_mean, abs=1e-8)
        assert v == pytest.approx(truth_var, rel=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("kind", POINT_SETS)
def test_single_points_are_uniform(kind):
    """Sets of one point are not mirrored: signs of their own must be random."""
    one = np.hstack(list(point_sets(kind, 5, [1] * 4000, np.random.default_rng(1))))
    np.testing.assert_allclose(one.mean(axis=1), 0.5, atol=4 / np.sqrt(12 * 4000))
    np.testing.assert_allclose(np.corrcoef(one)[np.triu_indices(5, 1)], 0.0, atol=4 / np.sqrt(4000))


@pytest.mark.parametrize("ours", IN_DIRECTIONS)
def test_orthogonal_draws_are_normal_and_integrate_quadratics_in_all_directions(ours):
    n, rng = 30, np.random.default_rng(2)
    b = np.random.default_rng(3).standard_normal(n)
    b /= np.linalg.norm(b)

    def second_moments(kind):
        return [np.mean((b @ ndtri(next(point_sets(kind, n, [2 * n], rng)))) ** 2) for _ in range(300)]

    plain, ours = second_moments("random"), second_moments(ours)
    assert abs(np.mean(ours) - 1.0) < 4 * np.std(ours) / np.sqrt(300)
    # The variance of independent draws is 2/(2n), of mirrored orthogonal ones 6/(n (n + 2)).
    assert abs(np.var(plain) * n - 1.0) < 0.35
    assert np.var(ours) < 7 / n**2


def test_directions_of_a_cholesky_factor_are_orthogonal_even_if_vectors_are_nearly_alike():
    rng = np.random.default_rng(0)
    alike = rng.standard_normal((20, 1)) + 1e-7 * rng.standard_normal((20, 6))
    for Z in (rng.standard_normal((40, 40)), rng.standard_normal((40, 7)), alike):
        Q = spanned(np.asfortranarray(Z))
        np.testing.assert_allclose(Q.T @ Q, np.eye(Z.shape[1]), atol=1e-8)
    Z = normals("perpendicular", 30, 40, rng)
    np.testing.assert_allclose(Z[:, 20:], -Z[:, :20])
    products = Z[:, :20].T @ Z[:, :20]
    np.testing.assert_allclose(products, np.diag(np.diag(products)), atol=1e-9)


def test_mirrored_pairs_are_found_in_sets_that_stand_one_after_another():
    sizes = [5, 4, 1, 6]
    U = np.hstack(list(point_sets("orthogonal", 3, sizes, np.random.default_rng(0))))
    pairs = mirrored_pairs(np.repeat([0, 1, 0, 1], sizes))
    counts = np.bincount(pairs)
    assert sorted(counts.tolist()) == [1, 1, 2, 2, 2, 2, 2, 2, 2]
    for pair in np.flatnonzero(counts == 2):
        first, second = U[:, pairs == pair].T
        np.testing.assert_allclose(first + second, 1.0)


@pytest.mark.parametrize("far", [0.0, 40.0])
def test_few_draws_are_those_of_the_coordinates_one_by_one(monkeypatch, far):
    """To the last bit: a saved model may hold the recipe of its draws; masses near zero take the other way."""
    n, rng = 50, np.random.default_rng(4)
    A = rng.standard_normal((n, n))
    S = A @ A.T + np.eye(n)
    S /= np.sqrt(np.outer(np.diag(S), np.diag(S)))
    lower = np.r_[far, rng.normal(size=n - 1)]
    proposal = propose(S, Sites(rng.random(n), rng.random(n)), lower, np.full(n, np.inf))
    U = rng.random((n, 20))
    x, log_w = draw(proposal, U)
    monkeypatch.setattr("gpclass.orthant.half_lines.FEW", 0)
    again, log_w_again = draw(proposal, U)
    np.testing.assert_array_equal(x, again)
    np.testing.assert_array_equal(log_w, log_w_again)
    assert np.isfinite(log_w).all()
    assert (x >= lower[:, None]).all()


def normals_and_limits(near, n=150, M=300):
    """A proposal with half-lines, of which the first are near, and normals."""
    rng = np.random.default_rng(3)
    A = rng.standard_normal((n, 2 * n))
    S = A @ A.T / (2 * n)
    lower = np.where(np.arange(n) < near, rng.normal(size=n), -9.0)
    ep = fit_sites(standard_form(S, lower))
    box = standard_form(S, lower)
    return propose(box.S, ep.widened(0.9), box.lower, box.upper), rng.standard_normal((n, M))


@pytest.mark.parametrize("near", [0, 40, 150])
def test_draws_from_normals_are_those_of_their_uniforms_if_limits_are_near_or_far(monkeypatch, near):
    proposal, Z = normals_and_limits(near)
    x, log_w = draw(proposal, ndtr(Z))
    monkeypatch.setattr("gpclass.orthant.half_lines.SURE", 8.3)  # where the mass beyond is rounding
    again, log_w_again = draw(proposal, Z, normal=True)
    np.testing.assert_allclose(again, x, atol=1e-9)
    np.testing.assert_allclose(log_w_again, log_w, atol=1e-9)
    some = draw(proposal, Z[:, :20], normal=True)  # few are drawn another way
    np.testing.assert_allclose(some[0], x[:, :20], atol=1e-9)


def test_draws_from_normals_far_beyond_a_limit_are_finite():
    proposal, Z = normals_and_limits(40)
    proposal.lower[3] = 60.0
    x, log_w = draw(proposal, Z, normal=True)
    Z[3] *= -1.0  # uniforms are taken from the other side there
    again, log_w_again = draw(proposal, ndtr(Z))
    assert (x >= proposal.lower[:, None]).all()
    np.testing.assert_allclose(log_w, log_w_again, rtol=1e-9, atol=1e-4)
    np.testing.assert_allclose(x[3], again[3], rtol=1e-9)


def test_limits_that_the_weight_applies_leave_the_mean_of_the_weights(monkeypatch):
    """With the limits applied by weights from 1 standard deviation on, draws are lost, and their mean is right."""
    monkeypatch.setattr("gpclass.orthant.half_lines.SURE", 1.0)
    n, M = 40, 40_000
    box = standard_form(truths.equicorrelated(n, 0.3))
    truth, ep, rng = truths.equicorrelated_log_probability(n, 0.3), fit_sites(box), np.random.default_rng(0)
    for defend in (False, True):
        plan = bare_plan(box, ep, defend=defend)
        sizes = [int(M * share) for share in plan.shares]
        x, log_w = mixture_draws(plan.proposals, [rng.standard_normal((n, k)) for k in sizes], normal=True)
        assert 0.001 < np.mean(log_w == -np.inf) < 0.9
        assert abs(log_mean(log_w) - truth) < 4 * relative_error(log_w, np.arange(len(log_w)))
        assert (x >= plan.box.lower[:, None]).all()


@pytest.mark.parametrize("defend", [False, True])
def test_duals_of_draws_are_those_of_a_solve(defend):
    """S⁻¹x from the coordinates of the draws; and the weights are the same."""
    n, rng = 40, np.random.default_rng(0)
    box = standard_form(truths.equicorrelated(n, 0.3))
    plan = bare_plan(box, fit_sites(box), defend=defend)
    assert plan.has_duals
    Z = [rng.standard_normal((n, 300)) for _ in plan.shares]
    x, log_w = mixture_draws(plan.proposals, Z, normal=True)
    dual, again = mixture_draws(plan.proposals, Z, normal=True, duals=True)
    np.testing.assert_array_equal(log_w, again)
    np.testing.assert_allclose(dual, np.linalg.solve(box.take(plan.order).S, x), atol=1e-9)
    v, A = plan.box.restore(x), plan.box.restore_duals(dual)
    D = plan.box.scale
    S = box.take(plan.order).S[np.ix_(plan.box.row, plan.box.row)]
    np.testing.assert_allclose((D[:, None] * S * D) @ A, v - plan.box.mean[:, None], atol=1e-9)


def limited(normal, b):
    """The normals that :func:`half_lines.limited` gives, and log Φ(b), of which it leaves a part to its caller."""
    mass, log_w = np.empty_like(b), np.zeros_like(b)
    moved = half_lines.limited(normal, b.copy(), mass, log_w)
    return moved, log_w + np.log(mass)


def test_draws_mostly_near_a_limit_are_those_that_are_picked(monkeypatch):
    normal, b = np.random.default_rng(0).standard_normal((2, 500))
    b = np.where(np.arange(500) % 10 == 0, 9.0, b)
    found = []
    for mostly in (0.0, 1.0):
        monkeypatch.setattr("gpclass.orthant.half_lines.MOSTLY", mostly)
        found.append(limited(normal, b))
    np.testing.assert_array_equal(found[0], found[1])


@pytest.mark.parametrize("M", [20, 400])
def test_weights_of_a_mixture_are_those_of_how_it_was_drawn(monkeypatch, M):
    """Few draws and many from normals are made in other ways; with limits near ``SURE`` the weights show it."""
    monkeypatch.setattr("gpclass.orthant.half_lines.SURE", 1.0)
    proposal, Z = normals_and_limits(40, M=M)
    x, log_w = draw(proposal, Z, normal=True)
    kept = np.isfinite(log_w)
    own = log_weight(proposal, x[:, kept], drawn=M)
    np.testing.assert_allclose(own, log_w[kept] + proposal.log_sites, atol=1e-8)


def test_a_draw_has_no_weight_if_its_normal_lies_beyond_the_limit(monkeypatch):
    """Also where another draw of the coordinate is so far out that tails are computed in logarithms."""
    monkeypatch.setattr("gpclass.orthant.half_lines.SURE", 1.0)
    b, normal = np.array([-30.0, 2.0, 2.0, 2.0]), np.array([0.5, 1.5, 2.5, -1.0])
    assert np.allclose(limited(normal, b)[0][1:], normal[1:])
    near = np.array([-3.0, 0.5, 0.7, 0.2])  # as far out as possible, and not: the same function of both
    out = np.append(near, -30.0)
    for far, inside in zip(limited(np.append(normal, 0.0), out), limited(normal, near), strict=True):
        assert np.allclose(far[:4], inside, atol=1e-9)


def test_uneven_weights_of_a_pilot_are_checked_on_the_plan_itself():
    box = standard_form(truths.equicorrelated(100))
    ep, rng = fit_sites(box), np.random.default_rng(0)
    plan = bare_plan(box, ep, defend=False)
    even, uneven = np.zeros(400), rng.standard_exponential(400)  # Pareto's weights of index 1
    assert reviewed(plan, box, ep, even, rng).shares == (1.0,)
    defended = reviewed(plan, box, ep, uneven, rng)
    assert defended.shares == bare_plan(box, ep, defend=True).shares
    np.testing.assert_array_equal(defended.proposals[1].L, bare_plan(box, ep, defend=True).proposals[1].L)
    tame = random_box(10)
    assert reviewed(bare_plan(tame, fit_sites(tame)), tame, fit_sites(tame), uneven, rng).shares == (1.0,)


def test_plans_of_earlier_versions():
    """Files of earlier versions predict with sites widened to .9, and with .7 a plan has other draws."""
    box = standard_form(truths.equicorrelated(30, 0.9))
    ep = fit_sites(box)
    U = np.random.default_rng(0).random((30, 50))
    now, before = (mixture_draws(p.proposals[:1], [U])[1] for p in (bare_plan(box, ep), earlier_plan(box, ep, None)))
    own = bare_plan(box, ep, power=0.9)
    np.testing.assert_array_equal(before, mixture_draws(own.proposals[:1], [U])[1])
    assert np.abs(now - before).max() > 1e-3
    assert earlier_plan(box, ep, np.random.default_rng(0)).power in (0.9, 1.0)
