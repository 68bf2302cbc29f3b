"""The peer at scale: GPyTorch's stochastic variational GP, trained with Adam on minibatches.

All its settings are tuned: inducing inputs start at k-means centres and are learned with an ARD RBF kernel, a
constant mean and the whitened variational distribution; the learning rate (cosine decay to zero) and the number of
steps are chosen from a grid by its own final *test* log loss. Single precision, GPyTorch's default. The clock is
stopped while the curve is measured.
"""

import os
import time

import numpy as np

# On a shared machine only CPU seconds are meaningful, and only with one thread.
THREADS = int(os.environ.get("THREADS", "2"))
clock = time.process_time if THREADS == 1 else time.perf_counter

BATCH = 1024


def train(X, y, X_test, y_test, *, m=300, rate=0.03, steps=1000, threads=THREADS, seed=0, marks=24):
    """Fit, and return the curve (seconds, test log loss), the final probabilities and log loss."""
    import gpytorch
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    begin = clock()
    Z = _centres(X, m, seed)

    class Model(gpytorch.models.ApproximateGP):
        def __init__(self):
            q = gpytorch.variational.CholeskyVariationalDistribution(len(Z))
            strategy = gpytorch.variational.VariationalStrategy(
                self, torch.tensor(Z, dtype=torch.float32), q, learn_inducing_locations=True
            )
            super().__init__(strategy)
            self.mean_module = gpytorch.means.ConstantMean()
            shape = gpytorch.kernels.RBFKernel(ard_num_dims=X.shape[1])
            shape.lengthscale = X.shape[1] ** 0.5
            self.covar_module = gpytorch.kernels.ScaleKernel(shape)

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    model, likelihood = Model(), gpytorch.likelihoods.BernoulliLikelihood()
    A = torch.tensor(X, dtype=torch.float32)
    b = torch.tensor(y, dtype=torch.float32)
    A_test = torch.tensor(X_test, dtype=torch.float32)
    objective = gpytorch.mlls.VariationalELBO(likelihood, model, len(A))
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    batch = min(BATCH, len(A))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    at = set(np.unique(np.geomspace(1, steps, marks).astype(int)))
    curve, paused, done = [], 0.0, 0
    while done < steps:
        order = torch.randperm(len(A))
        for rows in order.split(batch):
            model.train()
            optimizer.zero_grad()
            loss = -objective(model(A[rows]), b[rows])
            loss.backward()
            optimizer.step()
            schedule.step()
            done += 1
            if done in at or done == steps:
                stop = clock()
                p = _proba(model, likelihood, A_test)
                curve.append((stop - begin - paused, log_loss(y_test, p)))
                paused += clock() - stop
            if done == steps:
                break
    return {"curve": curve, "proba": p.tolist(), "seconds": curve[-1][0], "log_loss": curve[-1][1]}


def _centres(X, m, seed):
    from sklearn.cluster import MiniBatchKMeans

    return MiniBatchKMeans(m, random_state=seed, n_init=1, batch_size=4096).fit(X).cluster_centers_


def _proba(model, likelihood, A):
    import gpytorch
    import torch

    model.eval()
    with torch.no_grad(), gpytorch.settings.fast_pred_var():
        parts = [likelihood(model(rows)).mean for rows in A.split(4096)]
    return torch.cat(parts).double().numpy()


def log_loss(y, p):
    """Mean log loss of labels 0/1 and probabilities of 1."""
    p = np.clip(np.asarray(p, dtype=float), 1e-12, 1 - 1e-12)
    return float(-np.mean(np.where(y == 1, np.log(p), np.log1p(-p))))
