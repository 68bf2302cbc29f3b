"""Local exactness: quadrature over a few rows, the dense exact posterior, its stated errors, and files."""

import numpy as np
import pytest
from scipy.special import expit, ndtr
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from gpclass import GPClassifier, load_model
from gpclass.hyper.staged.quality import compare_with_dense
from gpclass.inference import EP, Exact, LocalExact
from gpclass.inference.local_exact import LocalPosterior
from gpclass.inference.local_rows import groups, most_correlated
from gpclass.latent.low_rank import LowRank
from gpclass.latent.neighbours import Neighbours
from gpclass.likelihoods import get_likelihood
from gpclass.model.problem import Problem
from gpclass.predict import in_blocks, predict_proba

KERNEL = ConstantKernel(9.0) * RBF(0.7)
LINKS = {"probit": ndtr, "logit": expit}


def data(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.where(X[:, 0] + 0.5 * X[:, 1] + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0), rng.normal(size=(6, 2))


def proba(posterior, X_new):
    return in_blocks(X_new, posterior, lambda latent: predict_proba(latent, posterior.problem.likelihood))


def quadrature(link, joint, rows, nodes=11):
    """Probabilities at new points: Gauss-Hermite about EP's Gaussian over a few rows, then over the new value."""
    x, w = np.polynomial.hermite_e.hermegauss(nodes)
    k = len(rows.y)
    z = np.stack(np.meshgrid(*k * [x], indexing="ij")).reshape(k, -1)
    weight = np.prod(np.stack(np.meshgrid(*k * [w], indexing="ij")).reshape(k, -1), axis=0)
    f = joint.mean[:, None] + np.linalg.cholesky(joint.covariance) @ z
    powers = np.ones(k) if rows.weights is None else rows.weights
    ratio = powers[:, None] * np.log(link(rows.y[:, None] * f)) - rows.h[:, None] * f + 0.5 * rows.t[:, None] * f**2
    weight = weight * np.exp(ratio.sum(axis=0))
    solved = np.linalg.solve(joint.covariance, joint.cross)
    means = joint.new_mean + (f - joint.mean[:, None]).T @ solved
    sd = np.sqrt(joint.new_variance - np.einsum("ij,ij->j", joint.cross, solved))
    if link is ndtr:
        return weight @ ndtr(means / np.sqrt(1.0 + sd**2)) / weight.sum()
    u, v = np.polynomial.hermite_e.hermegauss(31)
    each = sum(share * link(means + sd * at) for at, share in zip(u, v / v.sum(), strict=True))
    return weight @ each / weight.sum()


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("link", LINKS)
def test_a_few_rows_agree_with_quadrature(link, weighted):
    X, y, new = data(12)
    weights = np.where(np.arange(12) % 2, 0.6, 1.7) if weighted else None
    problem = Problem.of(X, y, KERNEL, get_likelihood(link), weights)
    posterior = LocalExact(n_samples=20_000)(problem, np.random.default_rng(0))
    rows = posterior.rows.take(np.array([1, 4, 5, 8, 11]))
    joint = posterior.gaussian.joint(rows, new)
    found = predict_proba(posterior.drawn(rows, joint), problem.likelihood)
    truth = quadrature(LINKS[link], joint, rows)
    assert np.all(np.abs(found.proba[:, 1] - truth) < 4.0 * found.mcse[:, 1] + 2e-5)
    assert found.mcse.max() < 2e-3
    ep = predict_proba(EP()(problem).latent(new), problem.likelihood).proba[:, 1]
    assert np.max(np.abs(ep - truth)) > 4.0 * found.mcse.max()  # the exact factors can be told from the sites


@pytest.mark.slow
@pytest.mark.parametrize("link", LINKS)
def test_all_rows_are_the_dense_exact_posterior(link):
    X, y, new = data(80)
    problem = Problem.of(X, y, KERNEL, get_likelihood(link))
    exact = proba(Exact(n_samples=10_000)(problem, np.random.default_rng(0)), new)
    local = proba(LocalExact(rows=80, n_samples=10_000)(problem, np.random.default_rng(1)), new)
    assert np.all(np.abs(local.proba - exact.proba) < 4.0 * np.hypot(local.mcse, exact.mcse))
    assert np.all(local.truncation == 0.0)


@pytest.mark.slow
def test_stated_errors_cover():
    X, y, _ = data(300)
    new = np.random.default_rng(9).normal(size=(60, 2))
    problem = Problem.of(X, y, KERNEL, get_likelihood("probit"))
    exact = proba(Exact(n_samples=10_000)(problem, np.random.default_rng(0)), new)
    local = proba(LocalExact(rows=80)(problem, np.random.default_rng(1)), new)
    off = np.abs(local.proba - exact.proba)[:, 1]
    stated = np.sqrt(local.mcse[:, 1] ** 2 + local.truncation**2 + exact.mcse[:, 1] ** 2)
    assert off.mean() < 0.002
    assert np.mean(off < 2.0 * stated) > 0.9
    assert np.mean(off < 0.2 * stated) < 0.6  # and they are no wider than needed


@pytest.mark.slow
def test_with_all_rows_inducing_inputs_are_exact_under_their_prior():
    X, y, new = data(40)
    problem = Problem.of(X, y, KERNEL, get_likelihood("probit"), None, 2, LowRank(X[:10], 10))
    dense = problem.prior.as_dense()
    exact = Exact(n_samples=10_000)(dense, np.random.default_rng(0))
    features, rest = problem.prior.bases[0].features(X)
    own, _ = problem.prior.bases[0].features(new)
    truth = predict_proba(exact.mixture([features @ own.T], [KERNEL.diag(new)]), problem.likelihood)
    local = proba(LocalExact(rows=40, n_samples=10_000)(problem, np.random.default_rng(1)), new)
    assert np.all(np.abs(local.proba - truth.proba) < 4.0 * np.hypot(local.mcse, truth.mcse))
    assert rest.min() >= 0.0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")  # few draws, few neighbours
@pytest.mark.parametrize("form", [None, LowRank(m=12), Neighbours(8)], ids=["dense", "inducing", "neighbours"])
def test_a_saved_model_predicts_the_same(form, tmp_path):
    X, y, new = data(90)
    weights = np.where(np.arange(90) % 3 == 0, 2.0, 1.0)
    settings = {"inference": LocalExact(rows=20, n_samples=200), "hyperparameters": "fixed", "latent_prior": form}
    clf = GPClassifier(KERNEL, random_state=0, **settings).fit(X, y, sample_weight=weights)
    found = clf.predict_uncertainty(new)
    assert found.truncation.min() > 0.0
    clf.save(tmp_path / "model.gpclass")
    again = load_model(tmp_path / "model.gpclass").predict_uncertainty(new)
    for name in ("proba", "mcse", "truncation", "lower", "upper"):
        assert np.allclose(getattr(found, name), getattr(again, name), atol=1e-10), name


def test_weights_that_average_one_are_weights():
    X, y, _ = data(40)
    weights, form = np.where(np.arange(40) % 2, 0.5, 1.5), LowRank(X[:8], 8)
    values = []
    for nudge in (0.0, 1e-12):
        problem = Problem.of(X, y, KERNEL, get_likelihood("probit"), weights + nudge * np.eye(40)[0], 2, form)
        values.append(LocalExact(rows=20, n_samples=60)(problem, np.random.default_rng(0)).evidence.log_z)
    assert values[0] == pytest.approx(values[1], abs=1e-6)


def test_copies_under_inducing_inputs_are_repeated_rows():
    X, y, new = data(40)
    weights = np.where(np.arange(40) % 4 == 0, 2.0, 1.0)
    form, rows = LowRank(X[:8], 8), np.repeat(np.arange(40), weights.astype(int))
    settings = LocalExact(rows=100, n_samples=300)
    found = [
        proba(settings(Problem.of(*given, 2, form), np.random.default_rng(0)), new).proba
        for given in (
            (X, y, KERNEL, get_likelihood("probit"), weights),
            (X[rows], y[rows], KERNEL, get_likelihood("probit"), None),
        )
    ]
    assert np.allclose(*found, atol=1e-8)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")  # few draws, few inducing inputs
def test_rows_in_files_are_those_of_an_array(tmp_path):
    pytest.importorskip("pyarrow")
    pd = pytest.importorskip("pandas")
    X, y, new = data(60)
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "label": y})
    for k in range(2):
        frame[30 * k : 30 * (k + 1)].to_parquet(tmp_path / f"part-{k}.parquet")
    settings = {"inference": LocalExact(rows=20, n_samples=50), "hyperparameters": "fixed", "n_inducing": 5}
    found, array = (
        GPClassifier(KERNEL, random_state=0, **settings).fit(*given).predict_uncertainty(new)
        for given in ((tmp_path, "label"), (X, y))
    )
    assert np.allclose(found.proba, array.proba, atol=1e-8)
    assert "truncation" in str(found)
    assert f"{found.truncation[0]:.3g}" in str(found)


@pytest.mark.slow
def test_predictions_are_not_random_and_keep_the_order_of_the_points():
    X, y, _ = data(100)
    new = np.random.default_rng(2).normal(size=(60, 2)) * 3.0
    problem = Problem.of(X, y, KERNEL, get_likelihood("probit"))
    posterior = LocalExact(rows=20, n_samples=400)(problem, np.random.default_rng(0))
    blocks = posterior.blocks(new, 0)
    assert len(blocks) > 2
    assert np.array_equal(np.sort(np.concatenate(blocks)), np.arange(60))
    first, again = proba(posterior, new), proba(posterior, new)
    assert np.array_equal(first.proba, again.proba)
    ep = predict_proba(EP()(problem).latent(new), problem.likelihood).proba
    assert np.max(np.abs(first.proba - ep)) < 0.05


@pytest.mark.slow
def test_truncation_is_never_small_by_chance():
    """Of one point, a difference may be near 0: a second halving and the noise of the predictions count as well."""
    X, y, new = data(60)
    problem = Problem.of(X, y, ConstantKernel(100.0) * RBF(0.4), get_likelihood("probit"))
    posterior = LocalExact(rows=8, n_samples=400)(problem, np.random.default_rng(0))
    for x in np.vstack([new, X[:6] + 0.1]):
        latent = posterior.latent(x[None])
        rows = posterior.rows.take(most_correlated(problem, X, x[None], 8))
        joint = posterior.gaussian.joint(rows, x[None])
        whole, half, quarter = (
            predict_proba(posterior.drawn(rows.take(np.arange(k)), joint.first(k)), problem.likelihood)
            for k in (8, 4, 2)
        )
        pairs = ((whole, half), (half, quarter))
        differences = [abs(p.proba - q.proba)[0, 1] for p, q in pairs]
        noise = [np.hypot(p.mcse, q.mcse)[0, 1] for p, q in pairs]
        assert latent.truncation[0] == pytest.approx(max(*differences, *noise))
    fewest = LocalExact(rows=2, n_samples=100)(problem, np.random.default_rng(0))
    assert fewest.latent(new[:1]).truncation[0] > 0.0


@pytest.mark.filterwarnings("ignore::UserWarning")  # few draws
def test_the_comparison_with_the_dense_prior_takes_points_that_share_their_rows(monkeypatch):
    X, y, _ = data(90)
    taken, latent = [], LocalPosterior.latent

    def spied(posterior, X_new):
        taken.append(len(groups(posterior.problem, posterior.rows.X, X_new, posterior.settings.rows)))
        return latent(posterior, X_new)

    monkeypatch.setattr(LocalPosterior, "latent", spied)
    problem = Problem.of(X, y, ConstantKernel(9.0) * RBF(0.2), get_likelihood("probit"), None, 2, LowRank(X[:20], 20))
    compare_with_dense(problem, LocalExact(rows=10, n_samples=20), np.random.default_rng(0))
    assert len(taken) > 2
    assert set(taken) == {1}
