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
DRAWS = 1000  # behind probabilities of many classes, which have no closed form


def train(
    X, y, X_test, y_test, *, m=300, rate=0.03, steps=1000, threads=THREADS, seed=0, marks=24, classes=2, ard=True
):
    """Fit, and return the curve (seconds, test log loss), the final probabilities and log loss.

    More than two ``classes`` have a latent function each, with one kernel for all, and the softmax; ``ard`` gives the
    kernel one length scale per column.
    """
    import gpytorch
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    begin = clock()
    Z = _centres(X, m, seed)
    many = torch.Size([classes]) if classes > 2 else torch.Size()

    class Model(gpytorch.models.ApproximateGP):
        def __init__(self):
            q = gpytorch.variational.CholeskyVariationalDistribution(len(Z), batch_shape=many)
            strategy = gpytorch.variational.VariationalStrategy(
                self, torch.tensor(Z, dtype=torch.float32), q, learn_inducing_locations=True
            )
            if many:
                strategy = gpytorch.variational.IndependentMultitaskVariationalStrategy(strategy, classes)
            super().__init__(strategy)
            self.mean_module = gpytorch.means.ConstantMean(batch_shape=many)
            shape = gpytorch.kernels.RBFKernel(ard_num_dims=X.shape[1] if ard else None)
            shape.lengthscale = X.shape[1] ** 0.5 if ard else 2.0
            self.covar_module = gpytorch.kernels.ScaleKernel(shape)

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    model, likelihood = Model(), gpytorch.likelihoods.BernoulliLikelihood()
    if many:
        likelihood = gpytorch.likelihoods.SoftmaxLikelihood(num_classes=classes, mixing_weights=False)
    A = torch.tensor(X, dtype=torch.float32)
    b = torch.tensor(y, dtype=torch.long if many else torch.float32)
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
    """Probabilities of class 1, or of every class of many: averages over draws of the latent functions."""
    import gpytorch
    import torch

    model.eval()
    with torch.no_grad(), gpytorch.settings.fast_pred_var(), gpytorch.settings.num_likelihood_samples(DRAWS):
        laws = [likelihood(model(rows)) for rows in A.split(4096)]
        parts = [law.probs.mean(dim=0) if law.probs.dim() > 1 else law.mean for law in laws]
    return torch.cat(parts).double().numpy()


def log_loss(y, p):
    """Mean log loss of labels 0/1 and probabilities of 1, or of labels and probabilities of every class."""
    p = np.clip(np.asarray(p, dtype=float), 1e-12, 1 - 1e-12)
    own = p[np.arange(len(y)), y] if p.ndim > 1 else np.where(y == 1, p, 1.0 - p)
    return float(-np.mean(np.log(own)))
