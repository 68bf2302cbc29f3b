"""Laplace against scikit-learn, EP against GPy, and EP's sweeps on hard problems."""

import numpy as np
from sklearn.gaussian_process import GaussianProcessClassifier

from benchmarks import problems
from benchmarks.common import in_own_process, record, show, timed
from gpclass import GPClassifier
from gpclass.inference import EP
from gpclass.likelihoods import Probit
from gpclass.model.problem import Problem


def _ours(X, y, kernel):
    clf = GPClassifier(kernel, likelihood="logit", inference="laplace").fit(X, y)
    return clf.log_evidence_, clf.fit_report_.evaluations


def _scikit_learn(X, y, kernel):
    return GaussianProcessClassifier(kernel).fit(X, y).log_marginal_likelihood_value_, None


def laplace():
    """Laplace with an ARD kernel, maximised: seconds, peak memory, and the optimum reached."""
    X, y, kernel = problems.ard()
    runs = {name: [] for name in ("ours", "peer")}
    for _ in range(2):  # alternating, so that other load affects both
        runs["ours"].append(in_own_process(_ours, X, y, kernel))
        runs["peer"].append(in_own_process(_scikit_learn, X, y, kernel))
    ours, peer = (min(runs[name], key=lambda run: run[0]) for name in ("ours", "peer"))
    rows = [
        ("times faster than scikit-learn", f"{peer[0] / ours[0]:.1f}", "target: at least 5"),
        (
            "growth of peak memory, relative to scikit-learn's",
            f"{ours[1] / peer[1]:.2f}",
            "target: below 0.5",
        ),
        (
            "log evidence minus scikit-learn's",
            f"{ours[2][0] - peer[2][0]:+.4f}",
            "target: no worse than -0.01",
        ),
        ("seconds, ours and scikit-learn's", f"{ours[0]:.1f} / {peer[0]:.1f}", ""),
    ]
    show("Laplace, ARD kernel, maximised: n = 1000, d = 8", rows)
    record("Laplace + ARD maximise, n = 1000, d = 8, against scikit-learn", rows)


def _ep(X, y, kernel, tol):
    return EP(tol=tol)(Problem.of(X, y.astype(float), kernel, Probit()))


def _gpy(X, y, kernel):
    import GPy
    from paramz import ObsAr

    variance, length = kernel.k1.constant_value, kernel.k2.length_scale
    k = GPy.kern.RBF(X.shape[1], variance=variance, lengthscale=length)
    likelihood = GPy.likelihoods.Bernoulli()  # probit
    method = GPy.inference.latent_function_inference.EP(epsilon=1e-6)
    targets = (np.asarray(y)[:, None] + 1) / 2
    _, log_z, _ = method.inference(k, X, likelihood, ObsAr(targets))
    return float(log_z)


def ep():
    """EP at fixed parameters against GPy's, and sweeps to convergence on two hard problems."""
    rows = []
    for label, make in (("plane", problems.plane), ("d = 8, variance 50", problems.hard_eight)):
        X, y, kernel = make(500)
        ours, peer = [], []
        for _ in range(3):
            seconds, posterior = timed(_ep, X, y, kernel, 1e-6)
            ours.append(seconds)
            seconds, log_z = timed(_gpy, X, y, kernel)
            peer.append(seconds)
        tight = _ep(X, y, kernel, 1e-10).evidence.log_z
        rows += [
            (f"{label}: times faster than GPy", f"{min(peer) / min(ours):.1f}", "target: at least 5"),
            (
                f"{label}: log Z minus GPy's",
                f"{posterior.evidence.log_z - log_z:+.1e}",
                "target: within 1e-4",
            ),
            (f"{label}: log Z minus ours at tol = 1e-10", f"{posterior.evidence.log_z - tight:+.1e}", ""),
        ]
    hard = {"unit square, variance 20": problems.hard_square, "d = 8, variance 50": problems.hard_eight}
    for label, make in hard.items():
        report = _ep(*make(1000), 1e-6).report
        found = f"{report.iterations} ({'converged' if report.converged else 'not converged'})"
        rows.append((f"{label}, n = 1000: sweeps to 1e-6", found, "target: converged, at most 10"))
    show("EP at fixed parameters: n = 500", rows)
    record("EP at fixed parameters, n = 500, against GPy", rows)


if __name__ == "__main__":
    laplace()
    ep()
