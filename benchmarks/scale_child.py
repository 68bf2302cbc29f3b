"""One fit of the benchmark ``scale`` in a process of its own: ``python scale_child.py METHOD data.npz [p.npy]``.

Prints one line of JSON: CPU seconds of fit and prediction, peak memory, log loss, and, where the true p is known, the
mean error of p and the log loss expected under it; writes the probabilities to a third file, if one is named. Imports
only what the method needs, so that a peer's environment can run it.
"""

import json
import os
import resource
import sys
import time

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # before NumPy
    os.environ[name] = "1"

import numpy as np  # noqa: E402


def gpclass_fit(X, y, X_test, k, m, inference):
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern

    from gpclass import GPClassifier

    kernel = ConstantKernel(1.0, (1e-2, 1e3)) * Matern(0.1, (1e-3, 10.0), nu=1.5)
    settings = {"n_inducing": m, "n_neighbors": k}
    if m == "local":
        from gpclass.latent.local import LocalBlocks

        settings = {"latent_prior": LocalBlocks(k)}
    clf = GPClassifier(kernel, inference=inference, likelihood="probit", random_state=0, **settings)
    clf.fit(X, y)
    return clf.predict_proba(X_test)[:, 1], np.exp(clf.theta_).tolist()


def gpboost_fit(X, y, X_test, approximation, k, m):
    import gpboost

    settings = {"num_ind_points": m} if m else {}
    model = gpboost.GPModel(
        gp_coords=X,
        cov_function="matern",
        cov_fct_shape=1.5,
        likelihood="bernoulli_probit",
        gp_approx=approximation,
        num_neighbors=k,
        matrix_inversion_method="iterative",
        num_parallel_threads=1,
        seed=1,
        **settings,
    )
    model.fit(y=y.astype(float))
    found = model.predict(gp_coords_pred=X_test, predict_response=True, predict_var=False)
    return np.asarray(found["mu"]), np.asarray(model.get_cov_pars()).ravel().tolist()


METHODS = {
    "inducing 300, ep": (gpclass_fit, None, 300, "ep"),
    "neighbours 15, laplace": (gpclass_fit, 15, None, "laplace"),
    "neighbours 15, ep": (gpclass_fit, 15, None, "ep"),
    "neighbours 10 and inducing 100, ep": (gpclass_fit, 10, 100, "ep"),
    "local 60, ep": (gpclass_fit, 60, "local", "ep"),
    "GPBoost Vecchia 20": (gpboost_fit, "vecchia", 20, None),
    "GPBoost VIF 20, 200": (gpboost_fit, "full_scale_vecchia", 20, 200),
    "neighbours auto, ep": (gpclass_fit, "auto", None, "ep"),
    "neighbours auto, laplace": (gpclass_fit, "auto", None, "laplace"),
}


def main(method, path, kept=None):
    data = np.load(path)
    fit, *settings = METHODS[method]
    p, theta = fit(data["X"], data["y"], data["X_test"], *settings)
    p = np.clip(p, 1e-12, 1.0 - 1e-12)
    used = resource.getrusage(resource.RUSAGE_SELF)
    found = {
        "seconds": time.process_time(),
        "memory_mb": used.ru_maxrss / 1024,
        "log_loss": -float(np.mean(np.log(np.where(data["y_test"] == 1, p, 1.0 - p)))),
        "parameters": theta,
    }
    if "p_test" in data:
        truth = data["p_test"]
        found["error_of_p"] = float(np.mean(np.abs(p - truth)))
        found["expected"] = -float(np.mean(truth * np.log(p) + (1.0 - truth) * np.log1p(-p)))
    if kept:
        np.save(kept, p)
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
