"""Benchmarks of the orthant methods: A Table 1, variance x time, cost, point sets, orders, other methods.

Run ``python -m benchmarks.orthant [section ...]``; without a section all of them (some minutes on one core).
Everything is compared within one run, and times are printed as ratios.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from papers import truths
from scipy.special import ndtr
from scipy.stats import multivariate_normal

from benchmarks.common import record
from gpclass.orthant import orthant_probability
from gpclass.orthant.bootstrap import bootstrap
from gpclass.orthant.box import standard_form
from gpclass.orthant.plan import bare_plan, coordinate_order, fit_sites
from gpclass.orthant.uniforms import replicate_sizes
from gpclass.orthant.weights import effective_size, log_mean, relative_error

PUBLISHED = {
    50: (0.012, 0.245, 0.072),
    200: (0.015, 0.101, 0.039),
    500: (0.043, 0.107, 0.059),
}  # best, 1e4, 1e5


def rbf(X, variance, length):
    square = ((X[:, None] - X[None]) ** 2).sum(-1)
    return variance * np.exp(-0.5 * square / length**2)


def labelled(K, rng):
    n = len(K)
    f = np.linalg.cholesky(K + 1e-6 * np.eye(n)) @ rng.standard_normal(n)
    return np.where(rng.random(n) < ndtr(f - np.median(f)), 1.0, -1.0)


def problem(name, n, seed=0):
    """Covariance of one of the named problems."""
    rng = np.random.default_rng(seed)
    if name == "filippone":
        K = rbf(rng.random((n, 2)), 20.0, 0.255)
        return truths.probit_orthant(K, labelled(K, rng))
    if name == "rbf-d8":
        K = rbf(rng.standard_normal((n, 8)), 50.0, 1.5)
        return truths.probit_orthant(K, labelled(K, rng))
    if name == "rbf-3-2":  # A's kernel β exp(−r²/α²), (α, β) = (3, 2), two Gaussian classes
        y = np.repeat([1.0, -1.0], [n // 2, n - n // 2])
        X = rng.multivariate_normal([0, 0], [[1, 0.25], [0.25, 1]], n) * (y[:, None] < 0)
        X = np.where(y[:, None] > 0, rng.standard_normal((n, 2)), X + 1)
        shuffle = rng.permutation(n)
        return truths.probit_orthant(rbf(X[shuffle], 2.0, 3 / np.sqrt(2)), y[shuffle])
    if name == "linear":
        x, y, *_ = truths.LINEAR_PROBLEMS[3].draw(rng)
        return truths.probit_orthant(np.outer(x[:n], x[:n]), y[:n])
    if name == "product":
        return truths.product_correlation(truths.product_problem(n, rng))
    return truths.equicorrelated(n)


def table_1(repeats=50, hard_repeats=20):
    """A Table 1: MAPE (%) of log P over vectors d."""
    print(f"\nA Table 1, MAPE in %, {repeats} vectors (hard count: {hard_repeats})")
    print("   n   guided M=10,000   paper 3,000,000   ratio   seconds   hard 1e4 (paper)   hard 1e5 (paper)")
    rows, wanted = [], {50: 30, 200: 200, 500: 500}
    for n in truths.PRODUCT_SIZES:
        errors, seconds, hard = [], [], {10_000: [], 100_000: []}
        for seed in range(repeats):
            rng = np.random.default_rng(seed)
            d = truths.product_problem(n, rng)
            truth = truths.product_correlation_log_probability(d)
            got = orthant_probability(truths.product_correlation(d), n_samples=10_000, random_state=seed)
            errors.append(100 * abs(got.log_probability / truth - 1))
            seconds.append(got.seconds)
            if seed < hard_repeats and n <= 200:
                box = standard_form(truths.product_correlation(d))
                for M, found in hard.items():
                    run = bootstrap(box, M, rng, soft=False)
                    found.append(100 * abs(run.log_p / truth - 1))
        best, at_4, at_5 = PUBLISHED[n]
        cells = [f"{np.mean(h):.3f} ({p})" if h else "-" for h, p in zip(hard.values(), (at_4, at_5), strict=True)]
        print(
            f"{n:4d}   {np.mean(errors):15.2e}   {best:15}   {best / np.mean(errors):5.0f}   "
            f"{np.median(seconds):7.2f}   {cells[0]:>16}   {cells[1]:>16}"
        )
        ratio = f"{best / np.mean(errors):.0f}"
        rows.append(
            (
                f"n = {n}: error below the paper's best (3,000,000 samples), times",
                ratio,
                f"target: {wanted[n]}",
            )
        )
    record(f"Orthant integrals of Atiya et al., Table 1: guided, 10,000 particles, {repeats} problems", rows)


def variance_time(repeats=12, M=1000, M_soft=2000):
    """Variance x time of log P against the soft count."""
    print("\nvariance x time of log P, guided against bootstrap-soft")
    rows = []
    for name, n in (("linear", 400), ("rbf-3-2", 200)):
        S = problem(name, n)
        box = standard_form(S)
        cost = {}
        for method, m in (("guided", M), ("bootstrap-soft", M_soft)):
            begin = time.perf_counter()
            found = [
                orthant_probability(S, method=method, n_samples=m, random_state=s).log_probability
                for s in range(repeats)
            ]
            cost[method] = (np.var(found, ddof=1), (time.perf_counter() - begin) / repeats)
        begin = time.perf_counter()
        fit_sites(box)
        once = time.perf_counter() - begin
        (v, t), (v_soft, t_soft) = cost["guided"], cost["bootstrap-soft"]
        print(
            f"{name:10s} n={n}: sd {np.sqrt(v):.1e} in {t:.3f} s (EP {once:.3f} s) | soft "
            f"sd {np.sqrt(v_soft):.2f} in {t_soft:.3f} s | ratio {v_soft * t_soft / (v * t):,.0f}"
        )
        rows.append((f"{name}, n = {n}: times better", f"{v_soft * t_soft / (v * t):,.0f}", "target: 10,000"))
    record("Variance × time of log p(y): guided against the soft particle count", rows)


def growth(sizes=(500, 1000, 2000, 4000), M=1000):
    """Hard problems: standard error, and the guided step in Cholesky factorisations."""
    print(f"\nhard problems, M={M}: times in Cholesky factorisations of the same matrix")
    rows = []
    for name in ("filippone", "rbf-d8"):
        steps = []
        for n in sizes:
            S = problem(name, n)
            box = standard_form(S)
            cholesky = min(_timed(lambda S=S: np.linalg.cholesky(S))[1] for _ in range(3))
            ep, t_ep = _timed(lambda box=box: fit_sites(box))
            plan, t_plan = _timed(lambda box=box, ep=ep: bare_plan(box, ep))
            rng = np.random.default_rng(0)
            (_, log_w, group), t_draw = _timed(lambda plan=plan, rng=rng: plan.draw("lattice", replicate_sizes(M), rng))
            steps.append(t_plan + t_draw)
            print(
                f"{name:10s} n={n}: log P {log_mean(log_w):9.3f} ± {relative_error(log_w, group):.3f}, ESS "
                f"{effective_size(log_w) / M:.2f}, EP {t_ep / cholesky:.0f} ({ep.sweeps} sweeps), guided "
                f"step {steps[-1] / cholesky:.1f} (factors {t_plan / cholesky:.1f}, draws "
                f"{t_draw / cholesky:.1f})"
            )
            if n == 1000:
                error = relative_error(log_w, group)
                rows.append((f"{name}, n = 1000: standard error of log p(y)", f"{error:.3f}", "target: 0.05"))
                step = f"{steps[-1] / cholesky:.0f}"
                rows.append((f"{name}, n = 1000: guided step, in Cholesky factors", step, "target: at most 25"))
        slope = np.polyfit(np.log(sizes), np.log(steps), 1)[0]
        print(f"{name:10s} guided step grows as n^{slope:.2f}")
        rows.append((f"{name}: exponent of the guided step, n = {sizes[0]} to {sizes[-1]}", f"{slope:.2f}", ""))
    record(f"Hard problems: guided, {M} particles", rows)


def _timed(work):
    begin = time.perf_counter()
    result = work()
    return result, time.perf_counter() - begin


CASES = (
    ("product", 50),
    ("equicorrelated", 20),
    ("linear", 400),
    ("rbf-3-2", 200),
    ("filippone", 500),
    ("rbf-d8", 500),
)


def point_sets(repeats=25, M=1000):
    """Standard deviation of log P by point set."""
    print(f"\npoint sets: sd of log P, M={M}, {repeats} repeats")
    for name, n in CASES:
        box = standard_form(problem(name, n))
        plan = bare_plan(box, fit_sites(box))
        row = []
        for kind in ("random", "lattice", "sobol"):
            found, begin = [], time.perf_counter()
            for s in range(repeats):
                found.append(log_mean(plan.draw(kind, replicate_sizes(M), np.random.default_rng(s))[1]))
            row.append(f"{kind} {np.std(found, ddof=1):.1e} ({(time.perf_counter() - begin) / repeats:.3f} s)")
        print(f"{name:15s} n={n}: " + "  ".join(row))


def orders(M=4000):
    """Spread of the weights by order of the coordinates, and by strength of the sites."""
    print("\nsd of the relative weights by order (sites of power 0.9), and by power (sharpest site first)")
    for name, n in CASES:
        box = standard_form(problem(name, n))
        ep, rng = fit_sites(box), np.random.default_rng(0)
        row = []
        for order in ("sites", "given", "random"):
            place = coordinate_order(order, box, rng, ep.sites)
            row.append(f"{order} {_spread(bare_plan(box, ep, order=place, defend=False), M):.3f}")
        for power in (1.0, 0.7):
            row.append(f"power {power} {_spread(bare_plan(box, ep, power=power, defend=False), M):.3f}")
        row.append(f"defended {_spread(bare_plan(box, ep, defend=True), M):.3f}")
        print(f"{name:15s} n={n}: " + "  ".join(row))


def _spread(plan, M):
    log_w = plan.draw("random", [M], np.random.default_rng(1))[1]
    return np.sqrt(M / effective_size(log_w) - 1)


def equal_time(sizes=(20, 50, 100, 500), repeats=6):
    """Error of log P for guided, sov and scipy's cdf, given the same time."""
    print("\nerror of log P (rms) at the time of guided, M=2000: product correlation")
    rows = []
    for n in sizes:
        d = truths.product_problem(n, np.random.default_rng(n))
        S, truth = truths.product_correlation(d), truths.product_correlation_log_probability(d)
        found, t = _timed(lambda S=S: [orthant_probability(S, random_state=s) for s in range(repeats)])
        row = [f"guided {_rms(found, truth):.1e}"]
        M = 2000
        for _ in range(6):  # as many points as fit into the same time
            found, t_sov = _timed(
                lambda S=S, M=M: [
                    orthant_probability(S, method="sov", n_samples=M, random_state=s) for s in range(repeats)
                ]
            )
            if t_sov > 0.7 * t or M > 400_000:
                break
            M = int(M * min(4.0, max(1.3, t / t_sov)))
        row.append(f"sov (M={M}, {t_sov / t:.1f} of the time) {_rms(found, truth):.1e}")
        if n <= 100:
            zero = np.zeros(n)
            points, errors = 1000 * n, []
            begin = time.perf_counter()
            for s in range(repeats):
                p = multivariate_normal.cdf(zero, zero, S, maxpts=points, abseps=1e-300, releps=1e-12, rng=s)
                errors.append(np.log(max(p, 1e-300)) - truth)
            spent = (time.perf_counter() - begin) / t
            row.append(f"scipy cdf ({spent:.1f} of the time) {np.sqrt(np.mean(np.square(errors))):.1e}")
        print(f"n={n:4d}, {t / repeats:.3f} s each: " + "  ".join(row))
        rows.append((f"n = {n}", "; ".join(row), ""))
    record("Error of log P (rms) in the time of 2,000 guided particles", rows)


def _rms(found, truth):
    return np.sqrt(np.mean([(f.log_probability - truth) ** 2 for f in found]))


SECTIONS = {f.__name__.replace("_", "-"): f for f in (table_1, variance_time, growth, point_sets, orders, equal_time)}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], help="what to measure; everything by default")
    for section in parser.parse_args().sections or SECTIONS:
        SECTIONS[section]()
