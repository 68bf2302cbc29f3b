"""scikit-learn's checks, all of them or those whose outcome depends on the inference."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

# The others ask how parameters, tags, shapes and bad inputs are dealt with, which is before any inference.
OF_THE_INFERENCE = {
    "check_classifiers_train": {"readonly_memmap": True},  # two and three classes, arrays that cannot be written to
    "check_class_weight_classifiers": {},
    "check_decision_proba_consistency": {},
    "check_dict_unchanged": {},
    "check_estimators_pickle": {},
    "check_fit2d_1feature": {},
    "check_fit_idempotent": {},
    "check_methods_sample_order_invariance": {},
    "check_methods_subset_invariance": {},
    "check_sample_weight_equivalence_on_dense_data": {},
}


def few_checks(estimators, without=None, **settings):
    """``parametrize_with_checks`` with the checks above alone, or all but one of them."""
    wanted = {name: keywords for name, keywords in OF_THE_INFERENCE.items() if name != without}
    every = parametrize_with_checks(estimators, **settings)
    names, pairs = every.args
    asked = [pair for pair in pairs if _is_among(wanted, pair)]
    assert len(asked) == len(estimators) * len(wanted)  # else scikit-learn has renamed one
    return pytest.mark.parametrize(names, asked, **every.kwargs)


def _is_among(wanted, pair):
    _, check = getattr(pair, "values", pair)  # a marked pair has its values inside
    return wanted.get(check.func.__name__) == check.keywords
