"""The stated error of predictions that integrate over θ."""

from types import SimpleNamespace

import numpy as np
import pytest

from gpclass.hyper.mixture import ThetaMixture
from gpclass.inference.diagnostics import chain_figures
from gpclass.likelihoods import Probit
from gpclass.posterior import LatentMixture, Posterior, Report
from gpclass.predict import predict_proba
from tests.predict.test_two import autoregressive

POINTS = 1000


class KnownLatents(Posterior):
    """Latent values with the means that its one vector holds."""

    n_components = 1

    def __init__(self, means):
        self.means = means

    @classmethod
    def unpack(cls, problem, vectors):
        return cls(vectors[0])

    def latent(self, X_new):
        return LatentMixture(
            np.ones(1), self.means[None, :, None], np.full((1, POINTS, 1, 1), 0.3), np.zeros(1, dtype=np.intp)
        )

    def draw(self, X_new, n, rng):
        raise NotImplementedError


def mixture_of(x, thin):
    """A mixture over every ``thin``-th draw of chains x (chains, draws, POINTS), one point each."""
    chains = len(x)
    problem = SimpleNamespace(likelihood=Probit())
    problem.at = lambda theta: problem
    kept = x[:, ::thin].reshape(-1, 1, POINTS)
    chain = np.repeat(np.arange(chains), len(kept) // chains)
    report = Report(method="chains", ess=chain_figures(x[:, :, :20]).ess_bulk)
    return ThetaMixture(problem, KnownLatents, kept[:, :, 0], kept, chain, None, report)


@pytest.mark.parametrize("rho", [0.0, 0.9])
def test_two_chains_over_theta_state_an_error_that_holds_and_is_not_wide(rho):
    """Chains of mean zero: p = ½. One group per chain would multiply the error by 7."""
    x = autoregressive(2, 1200, rho, POINTS, np.random.default_rng(3))
    out = predict_proba(mixture_of(x, 12).latent(np.zeros((POINTS, 1))), Probit())
    off = out.proba[:, 1] - 0.5
    assert 0.92 < np.mean(np.abs(off) < 2 * out.mcse[:, 1]) < 0.98
    assert np.median(out.mcse[:, 1]) < 1.6 * np.std(off)


@pytest.mark.parametrize(("rho", "groups"), [(0.0, 32), (0.995, 4)])
def test_chains_are_cut_into_as_many_batches_as_their_effective_size_allows(rho, groups):
    x = autoregressive(4, 400, rho, POINTS, np.random.default_rng(3))
    assert len(np.unique(mixture_of(x, 8).latent(np.zeros((POINTS, 1))).group)) == groups
