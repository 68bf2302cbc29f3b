"""How far each method's probabilities are from the reference's, and what the approximation alone changes.

Two comparisons: out of fold, each method with the kernel parameters it found; and on all rows with the
reference's parameters, so that only the approximation differs. The second needs one more fit per method
and exists for methods of this package that share the reference's likelihood.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from gpclass._typing import Array
from gpclass.compare.presets import at_kernel
from gpclass.compare.result import Agreement, MethodResult
from gpclass.estimators.pipelines import final_step, seen_by_final

N_WORST = 8


def add_agreement(results: Mapping[str, MethodResult], reference: str, X: Any, y: Any) -> dict[str, MethodResult]:
    """Add to each method its distance from the reference."""
    ref, fixed_ref = results[reference], None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the warnings of the fit and its folds are already recorded
        if _classifier(ref) is not None:  # fitted to all rows
            fixed_ref = np.asarray(ref.estimator.predict_proba(X))
    evidence_ref = number(_classifier(ref), "log_evidence_")
    found = {}
    for name, r in results.items():
        if name == reference or r.proba is None or ref.proba is None:
            found[name] = r
            continue
        alone, gap = None, None
        if fixed_ref is not None:
            fixed, evidence = _at_kernel_of(r, ref, X, y)
            if fixed is not None:
                alone = _agreement(reference, fixed, fixed_ref, X)
                gap = None if evidence is None or evidence_ref is None else evidence - evidence_ref
        apart = _agreement(reference, r.proba, ref.proba, X)
        found[name] = replace(r, agreement=apart, same_kernel=alone, same_kernel_evidence=gap)
    return found


def _agreement(reference: str, proba: Array, proba_reference: Array, X: Any) -> Agreement:
    labels = X.index if hasattr(X, "iloc") else range(len(proba))
    delta = np.abs(proba - proba_reference).max(axis=1)
    worst = np.argsort(-delta, kind="stable")[:N_WORST]
    return Agreement(
        reference=reference,
        mean=float(delta.mean()),
        largest=float(delta.max()),
        points=worst.astype(np.intp),
        rows=tuple(str(labels[k]) for k in worst),
        delta=delta[worst],
        proba=proba[worst],
        proba_reference=proba_reference[worst],
        flips=int(np.sum(proba.argmax(axis=1) != proba_reference.argmax(axis=1))),
        confidence=float(np.mean(proba.max(axis=1) - proba_reference.max(axis=1))),
    )


def _classifier(r: MethodResult) -> Any:
    """The fitted classifier of a method if it is one of this package, whose kernel can be fixed; else None."""
    final = getattr(final_step(r.estimator), "classifier_", final_step(r.estimator))
    own = hasattr(final, "kernel_") and "hyperparameters" in getattr(final, "get_params", dict)()
    return final if own else None


def _at_kernel_of(r: MethodResult, ref: MethodResult, X: Any, y: Any) -> tuple[Array | None, float | None]:
    """Probabilities at X and log evidence of method ``r`` on all rows with the reference's kernel.

    None if either is not a Gaussian process classifier of this package, if it has another likelihood, or if the fit
    fails: these numbers are then missing from the comparison.
    """
    mine, theirs = _classifier(r), _classifier(ref)
    if mine is None or theirs is None or mine.likelihood_ != theirs.likelihood_:
        return None, None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            features = seen_by_final(r.estimator, X)
            fitted = at_kernel(mine, theirs.kernel_).fit(features, y)
            return np.asarray(fitted.predict_proba(features)), number(fitted, "log_evidence_")
        except Exception:  # as above: a missing number, not a failed comparison
            return None, None


def number(estimator: Any, *names: str) -> float | None:
    """The first of the named attributes that is a number."""
    for name in names:
        value = getattr(estimator, name, None)
        if value is not None:
            return float(value)
    return None
