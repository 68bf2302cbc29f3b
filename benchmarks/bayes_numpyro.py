"""One run of NumPyro's NUTS, for ``benchmarks.bayes_peer``: in an environment of its own, with NumPyro and not gpclass.

``python benchmarks/bayes_numpyro.py INPUT OUTPUT`` reads rows, labels, new points and priors of an .npz file and
writes draws of log θ (chains, draws, 2) and class probabilities at the new points. The model is Gaussian process
classification with a multinomial probit: f_c = L(θ) η_c for each class c, η ~ N(0, I), L L' = v exp(−|x−x'|²/2ℓ²), and

    p(y = c | f) = ∫ N(z; 0, 1) Π_{k≠c} Φ(z + f_c − f_k) dz

by Gauss-Hermite quadrature, with (log v, log ℓ) Gaussian.
"""

import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.scipy.special import log_ndtr, logsumexp
from numpyro.infer import MCMC, NUTS

NODES, CHAINS, WARMUP, DRAWS, JITTER = 24, 4, 300, 400, 1e-6
numpyro.enable_x64()


def log_proba(f):
    """Log p(y = c | f) for f (..., C)."""
    z, w = np.polynomial.hermite_e.hermegauss(NODES)
    log_w = jnp.log(jnp.asarray(w / w.sum()))
    C = f.shape[-1]
    gaps = f[..., :, None] - f[..., None, :]  # (..., c, k)
    each = log_ndtr(gaps[..., None] + jnp.asarray(z))  # (..., c, k, nodes)
    own = jnp.eye(C, dtype=bool)[..., None]
    return logsumexp(jnp.where(own, 0.0, each).sum(axis=-2) + log_w, axis=-1)


def square_distances(A, B):
    return jnp.sum((A[:, None] - B[None]) ** 2, axis=-1)


def covariance(theta, d2):
    return jnp.exp(theta[0] - 0.5 * d2 / jnp.exp(2 * theta[1]))


def root(theta, X):
    return jnp.linalg.cholesky(covariance(theta, square_distances(X, X)) + JITTER * jnp.exp(theta[0]) * jnp.eye(len(X)))


def model(X, y, C, means, sds):
    theta = numpyro.sample("theta", dist.Normal(means, sds).to_event(1))
    eta = numpyro.sample("eta", dist.Normal(0.0, 1.0).expand([len(X), C]).to_event(2))
    each = log_proba(root(theta, X) @ eta)
    numpyro.factor("labels", jnp.take_along_axis(each, y[:, None], axis=1).sum())


def proba_at(theta, eta, X, new, noise):
    """Probabilities at the new points, of one draw of latent values there."""
    L = root(theta, X)
    V = jax.scipy.linalg.solve_triangular(L, covariance(theta, square_distances(X, new)), lower=True)
    rest = jnp.sqrt(jnp.maximum(jnp.exp(theta[0]) - jnp.sum(V**2, axis=0), 0.0))
    return jnp.exp(log_proba(V.T @ eta + rest[:, None] * noise))


def flat(draws):
    """All chains as one."""
    return jnp.asarray(draws).reshape(-1, *draws.shape[2:])


def main(source, target):
    given = np.load(source)
    X, y, new = (jnp.asarray(given[k]) for k in ("X", "y", "new"))
    C = int(given["y"].max()) + 1
    begin = time.process_time()
    chains = MCMC(NUTS(model), num_warmup=WARMUP, num_samples=DRAWS, num_chains=CHAINS, chain_method="sequential",
                  progress_bar=False)  # fmt: skip
    chains.run(jax.random.PRNGKey(0), X, y, C, jnp.asarray(given["means"]), jnp.asarray(given["sds"]),
               extra_fields=("num_steps", "diverging"))  # fmt: skip
    draws = chains.get_samples(group_by_chain=True)
    theta, eta = np.asarray(draws["theta"]), np.asarray(draws["eta"])
    seconds = time.process_time() - begin
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((*theta.shape[:2], len(new), C))
    each = jax.lax.map(lambda one: proba_at(one[0], one[1], X, new, one[2]), tuple(map(flat, (theta, eta, noise))))
    each = np.asarray(each).reshape(*theta.shape[:2], len(new), C)
    extra = chains.get_extra_fields()
    np.savez(target, theta=theta, proba=each, seconds=seconds, version=numpyro.__version__,
             steps=float(np.mean(extra["num_steps"])), diverging=int(np.sum(extra["diverging"])))  # fmt: skip


if __name__ == "__main__":
    main(*sys.argv[1:])
