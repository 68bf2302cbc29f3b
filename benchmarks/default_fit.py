"""The default fit, exact and maximised, against scikit-learn's Laplace fit of the same kernel."""

from sklearn.gaussian_process import GaussianProcessClassifier

from benchmarks import problems
from benchmarks.common import in_own_process, record, show
from gpclass import GPClassifier


def _ours(X, y, kernel):
    clf = GPClassifier(kernel, random_state=0).fit(X, y)
    return (
        clf.fit_report_.n_samples,
        clf.fit_report_.evaluations,
        float(clf.predict_uncertainty(X).mcse.max()),
    )


def _scikit_learn(X, y, kernel):
    return GaussianProcessClassifier(kernel).fit(X, y).log_marginal_likelihood_value_


def main():
    """Both kernels at n = 1000."""
    rows = []
    for label, make in (("isotropic, d = 2", problems.plane), ("ARD, d = 8", problems.ard)):
        X, y, kernel = make(1000)
        ours = in_own_process(_ours, X, y, kernel)
        peer = in_own_process(_scikit_learn, X, y, kernel)
        draws, evaluations, mcse = ours[2]
        rows += [
            (
                f"{label}: time as a multiple of scikit-learn's",
                f"{ours[0] / peer[0]:.2f}",
                "target: at most 3",
            ),
            (f"{label}: seconds, ours and scikit-learn's", f"{ours[0]:.1f} / {peer[0]:.1f}", ""),
            (f"{label}: draws, evaluations", f"{draws}, {evaluations}", ""),
            (f"{label}: largest mcse at the training points", f"{mcse:.1e}", "target: 1e-3"),
        ]
    show("The default fit (exact, maximised): n = 1000", rows)
    record("Default fit (exact, maximise), n = 1000, against scikit-learn's Laplace", rows)


if __name__ == "__main__":
    main()
