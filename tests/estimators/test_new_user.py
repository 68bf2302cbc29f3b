"""What new users met: settings that are ordinary, and failed or were explained wrongly."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from gpclass import GPClassifier, compare
from gpclass.hyper import Maximize
from gpclass.latent.low_rank import LowRank


def data(n, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    s = X[:, 0] + 0.7 * np.sin(2 * X[:, 1]) + 0.5 * rng.normal(size=n)
    return X, np.digitize(s, [0.5] if classes == 2 else [-0.5, 0.6])


def said(work):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = work()
    return found, " ".join(str(one.message) for one in caught)


@pytest.mark.parametrize("inference", ["ep", "laplace"])
def test_one_kernel_of_several_may_be_fixed(inference):
    X, y = data(30, 3)
    kernels = [RBF(1.0, "fixed"), 1.0 * RBF(1.0), 1.0 * RBF(1.0)]
    clf = GPClassifier(kernels, inference=inference, hyperparameters=Maximize(max_iter=5))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf.fit(X, y)
    assert clf.kernel_.kernels[0] == RBF(1.0, "fixed")
    assert len(clf.theta_) == 4


def test_class_weights_are_explained_by_the_rows_that_were_given():
    X, y = data(30)[0], np.repeat([0, 1], [20, 10])
    settings = {"inference": "ep", "hyperparameters": "fixed"}
    for kernel in (1.0 * RBF(1.0), 1.0 * RBF(1.0) + WhiteKernel(0.1)):  # whose rows are repeated
        _, text = said(lambda k=kernel: GPClassifier(k, class_weight="balanced", **settings).fit(X, y))
        assert "a class of 0.667 of the rows as 0.5" in text or "a class of 0.333 of the rows as 0.5" in text
    even = GPClassifier(1.0 * RBF(1.0), class_weight={0: 1.0, 1: 1.0}, **settings)
    _, text = said(lambda: even.fit(X, y, sample_weight=np.where(y, 3.0, 1.0)))
    assert "class_weight" not in text
    labels = np.where(y, "ill", "well")
    named = GPClassifier(1.0 * RBF(1.0), class_weight={"ill": 4.0}, **settings)
    _, text = said(lambda: named.fit(X, labels))
    assert "as 0.667" in text or "as 0.333" in text


def test_fractional_weights_of_many_classes_say_what_they_cannot():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    y = np.array(["a", "b", "c"])[np.digitize(X[:, 0] + 0.5 * X[:, 1] + 0.6 * rng.normal(size=80), [0.9, 1.6])]
    hard = GPClassifier(
        208.0 * RBF(1.05) + 1.13, hyperparameters="fixed", class_weight="balanced", random_state=0, tol=0.01
    )
    clf, text = said(lambda: hard.fit(X, y))
    assert clf.fit_report_.ess < 50
    assert not clf.fit_report_.converged
    assert "effective of" in text
    assert "round them to whole numbers" in text


def test_large_weights_leak_no_warning_of_numpy():
    X, y = data(30)
    _, text = said(
        lambda: GPClassifier(1e4 * RBF(0.3), hyperparameters="fixed", random_state=0).fit(
            X, y, sample_weight=np.full(30, 50.0)
        )
    )
    assert "divide by zero" not in text


def test_messages_have_plain_labels():
    X, y = data(30)
    with pytest.raises(ValueError, match=r"every row of class 1 has weight zero"):
        GPClassifier().fit(X, y, sample_weight=(y == 0).astype(float))
    with pytest.raises(ValueError, match="not negative"):
        GPClassifier(class_weight={0: -1.0, 1: 1.0}).fit(X, y)
    rare = np.where(np.arange(30) < 2, 1, 0)
    with pytest.raises(ValueError, match=r"class 1 has 2 points"):
        compare(X, rare, cv=5)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"n_jobs": 0}, "n_jobs must be None or a whole number other than 0"),
        ({"n_jobs": 1.5}, "n_jobs must be"),
        ({"verbose": "x"}, "verbose must be a whole number"),
        ({"verbose": -1}, "verbose must be a whole number"),
    ],
)
def test_settings_of_the_run_are_checked_before_it(setting, message):
    with pytest.raises(ValueError, match=message):
        GPClassifier(**setting).fit(np.eye(4), [0, 1, 0, 1])


def test_advice_on_inducing_inputs_fits_what_was_given():
    Z = np.random.default_rng(0).uniform(size=(5, 4))
    given, counted = LowRank(Z, 5, how=Z), LowRank(Z, 5)
    assert counted.cure == "raise n_inducing, for instance to 10"
    assert given.cure == "give more inducing inputs than these 5"
    assert "n_neighbors='auto'" in LowRank(Z[:, :2], 5).cure


def test_blur_is_told_even_if_the_dense_prior_predicts_worse_this_once():
    """Three hundred rows are too few for the log loss to tell."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(2500, 2))
    y = (np.sin(40 * X[:, 0]) + np.sin(37 * X[:, 1]) + rng.normal(size=2500) > 0).astype(int)
    kernel = ConstantKernel(2.0) * Matern(0.06, nu=1.5)
    losses = []
    for seed in range(2):
        clf = GPClassifier(kernel, inference="ep", n_inducing=150, hyperparameters="fixed", random_state=seed)
        with pytest.warns(
            UserWarning, match="of the prior variance is finer than it shows; raise .*n_neighbors='auto'"
        ):
            losses.append(clf.fit(X, y).fit_report_.details["log_loss_above_dense"])
    assert min(losses) < 0.0 < max(losses)


def test_columns_of_text_are_named_with_the_cure():
    frame = pd.DataFrame({"east": [0.0, 1.0, 2.0, 3.0], "soil": ["clay", "sand", "clay", "sand"]})
    with pytest.raises(ValueError, match=r"not numbers: 'soil'; .*TableClassifier"):
        GPClassifier().fit(frame, [0, 1, 0, 1])
    with pytest.raises(ValueError, match="NaN"):  # other errors stay
        GPClassifier().fit(frame.assign(soil=[0.0, np.nan, 1.0, 2.0]), [0, 1, 0, 1])


def test_settings_in_conflict_are_named():
    with pytest.raises(ValueError, match="latent_prior='local' and n_neighbors=5 are given"):
        GPClassifier(latent_prior="local", n_neighbors=5).fit(np.eye(4), [0, 1, 0, 1])
