"""Groups of rows given their sites: the short form of the precisions is the full one, at a fraction of its cost."""

import numpy as np
import pytest

from gpclass import GPClassifier, load_model
from gpclass.inference import Variational
from gpclass.latent.local import LocalBlocks, search_form
from gpclass.latent.local_solves import Full, Short, solved, times_sites
from gpclass.likelihoods.local import precision
from tests.latent.cases import CASES, MANY, NEW, X, problem

G, S, L = 3, 8, 4


def groups(missing):
    rng = np.random.default_rng(0)
    points = rng.standard_normal((L, G, S, 2))
    K = [np.exp(-0.5 * np.sum((part[:, :, None] - part[:, None]) ** 2, axis=-1)) for part in points]
    D = 10.0 ** rng.uniform(-6, 1, (G, S, L))  # some rows are certain of their class
    if missing:
        D[:, -1] = 0.0
    W = np.where(D.sum(axis=2)[..., None, None] > 0, precision(D.reshape(-1, L).T).reshape(G, S, L, L), 0.0)
    return K, D, W, rng


@pytest.mark.parametrize("missing", [False, True])
def test_the_short_form_is_the_full_one(missing):
    K, D, W, rng = groups(missing)
    short, full = solved(K, D), solved(K, W)
    assert isinstance(short, Short)
    assert isinstance(full, Full)
    x, cross = rng.standard_normal((G, S, L)), list(rng.uniform(size=(L, G, S)))
    assert np.isclose(short.half_log_det, full.half_log_det, rtol=1e-10)
    pairs = [
        (short.times(x), full.times(x)),
        (short.marginals(K), full.marginals(K)),
        (short.reduction(cross), full.reduction(cross)),
        (short.in_full(), full.in_full()),
        (times_sites(D, x), times_sites(W, x)),
        *((short.own(c), full.own(c)) for c in range(L)),
    ]
    for ours, slow in pairs:
        assert ours.shape == slow.shape
        assert np.allclose(ours, slow, rtol=1e-8, atol=1e-10)


def test_the_full_form_is_that_of_a_plain_solve():
    K, _, W, rng = groups(missing=False)
    x = rng.standard_normal((G, S, L))
    for g in range(G):
        prior, sites = np.zeros((S * L, S * L)), np.zeros((S * L, S * L))
        for c in range(L):
            prior[c::L, c::L] = K[c][g]
        for i in range(S):
            sites[i * L : (i + 1) * L, i * L : (i + 1) * L] = W[g, i]
        M = np.linalg.solve(np.eye(S * L) + sites @ prior, sites)  # W is singular
        assert np.allclose(solved([part[g : g + 1] for part in K], W[g : g + 1]).in_full()[0], M, atol=1e-8)
        assert np.allclose(solved(K, W).times(x)[g].ravel(), M @ x[g].ravel(), atol=1e-8)


@pytest.mark.parametrize("case", [case for case in CASES if CASES[case][1] is MANY])
def test_sites_of_many_classes_are_kept_and_solved_in_the_short_form(case):
    at = problem(case, LocalBlocks(20)).placed(np.random.default_rng(0))
    q = CASES[case][2](at).gaussian
    kept = q.kept()
    assert q._sites[0].ndim == 2
    assert set(kept) == {"D", "b"}
    again = at.prior.from_kept(kept).latent(NEW)
    earlier = at.prior.from_kept({"W": q.W, "b": kept["b"]}).latent(NEW)  # as earlier versions kept them
    for name in ("means", "covariances"):
        assert np.allclose(getattr(again, name), getattr(q.latent(NEW), name), atol=1e-12)
        assert np.allclose(getattr(earlier, name), getattr(again, name), atol=1e-8)


def test_sites_without_a_short_form_are_solved_in_full():
    q = Variational()(problem("softmax", LocalBlocks(20)).placed(np.random.default_rng(0))).gaussian
    assert q._sites[0].ndim == 3
    assert set(q.kept()) == {"W", "b"}


def test_a_saved_model_of_many_classes_predicts_the_same(tmp_path):
    y = np.digitize(X[:, 0], [0.3, 0.6])
    clf = GPClassifier(latent_prior=LocalBlocks(20), inference="ep", hyperparameters="fixed", random_state=0).fit(X, y)
    clf.save(tmp_path / "model.gpclass")
    assert np.allclose(load_model(tmp_path / "model.gpclass").predict_proba(NEW), clf.predict_proba(NEW), atol=1e-12)


def test_more_latent_values_are_searched_with_fewer_inducing_inputs():
    assert [search_form(10_000, 8, latents).m for latents in (1, 3, 7, 30)] == [300, 122, 57, 50]
