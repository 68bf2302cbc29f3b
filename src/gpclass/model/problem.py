"""The data of one classification problem, checked and encoded once, at one value of the parameters.

Rows, a kernel (or one per class), a likelihood, and the form of the prior over latent values make a problem;
:meth:`Problem.at` moves it to another θ. The prior is computed when first needed.

The likelihood is a function of scale·f, so a model with scale s and covariance K is the model with scale 1 and s²K, and
every inference here respects that: d log Z / d log s = 2 Σ_ij G_ij K_ij, where G = d log Z / dK. So no
inference computes the scale's gradient itself.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import ref

import numpy as np
import numpy.typing as npt
from sklearn.gaussian_process.kernels import CompoundKernel, Kernel

from gpclass._typing import Array, Generator
from gpclass.covariance import Covariance
from gpclass.latent.base import Form, LatentPrior
from gpclass.latent.dense import Dense
from gpclass.likelihoods.base import Likelihood
from gpclass.model.labels import copied_rows, copies_of, unrolled_rows
from gpclass.model.parameters import Parameters, frozen
from gpclass.model.rows import ArraySource, Executor, Rows
from gpclass.model.sums import Sums

MOST_COPIES = 4  # rows per point, on average, up to which copies are repeated rows


@dataclass(frozen=True, eq=False)
class Problem(Parameters):
    """n labelled rows, a kernel, a likelihood and a form of the prior."""

    rows: Rows
    kernel: Kernel  # shared by all latent values, or a compound of one per class
    likelihood: Likelihood
    n_classes: int = 2
    form: Form = field(default_factory=Dense)

    def __post_init__(self) -> None:
        if isinstance(self.kernel, CompoundKernel) and len(self.kernel.kernels) != self.n_latents:
            raise ValueError(
                f"got {len(self.kernel.kernels)} kernels for {self.n_classes} classes; give one kernel for all "
                "classes, or a list with one for each, in the order of classes_"
            )

    @classmethod
    def of(
        cls,
        X: Array,
        y: npt.NDArray[Any],
        kernel: Kernel,
        likelihood: Likelihood,
        weights: Array | None = None,
        n_classes: int | None = None,
        form: Form | None = None,
    ) -> Problem:
        """A problem of arrays in memory.

        Parameters
        ----------
        X : (n, d) array
        y : (n,) array
            Labels as the likelihood takes them: −1 and +1, or 0 to C − 1.
        kernel, likelihood
        weights : (n,) array, optional
            Powers of the likelihood.
        n_classes : int, optional
            C; by default the number of classes in y.
        form : Form, optional
            Of the prior; dense by default.
        """
        form = Dense() if form is None else form
        C = n_classes or (int(np.max(y)) + 1 if likelihood.many else 2)
        return cls(form.rows(ArraySource(X, y, weights)), kernel, likelihood, C, form)

    # ---- rows -------------------------------------------------------------------------------------------------

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.rows.n

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return self.rows.d

    @property
    def n_latents(self) -> int:
        """L, the latent values of a row: 1 for two classes, or C."""
        return self.likelihood.n_latents(self.n_classes)

    @property
    def X(self) -> Array:
        """Features, (n, d)."""
        return self.rows.everything[0]

    @property
    def y(self) -> npt.NDArray[Any]:
        """Labels as the likelihood takes them, (n,)."""
        return self.rows.everything[1]

    @property
    def weights(self) -> Array | None:
        """Powers of the likelihood, (n,); None: all one."""
        return self.rows.everything[2]

    def weighted(self, values: Array) -> Array:
        """Multiply per-row terms (..., n) of the log likelihood by the sample weights."""
        weights = self.weights
        return values if weights is None else weights * values

    def on(
        self, X: Array, y: npt.NDArray[Any], weights: Array | None = None, executor: Executor | None = None
    ) -> Problem:
        """The same model on other rows, in memory, or where an executor puts them."""
        form = self.form.for_other_rows()
        return replace(self, form=form, rows=form.rows(ArraySource(X, y, weights, executor=executor)))

    def subset(self, rows: npt.NDArray[Any]) -> Problem:
        """The same model on some of its rows: indices, or a mask."""
        X, y, weights = self.rows.everything
        return self.on(X[rows], y[rows], None if weights is None else weights[rows])

    def repeated(self) -> Problem | None:
        """Whole weights as repeated rows; None if one is fractional or there are too many rows."""
        X, y, weights = self.rows.everything
        if weights is None:
            return self
        rows = copied_rows(weights, MOST_COPIES * self.n)
        return None if rows is None else self.on(X[rows], y[rows])

    def unrolled(self) -> Problem:
        """Weights from 1 on as repeated rows, each whole one of weight 1 and a last one of the fractional rest.

        Every row once, with its weight, if there would be too many.
        """
        X, y, weights = self.rows.everything
        if weights is None:
            return self
        if copies_of(weights).sum() > MOST_COPIES * self.n:
            return self
        rows, rest = unrolled_rows(weights)
        return self.on(X[rows], y[rows], rest)

    def map(
        self, work: Callable[..., tuple[Any, Sums]], held: tuple[Any, ...], *arguments: Any
    ) -> tuple[tuple[Any, ...], Sums]:
        """Work on every shard of rows, given the likelihood first."""
        return self.rows.map(work, held, self.likelihood, *arguments)

    # ---- parameters and prior ---------------------------------------------------------------------------------

    def at(self, theta: Array) -> Problem:
        """The same data at another θ."""
        kernel, likelihood = self.parts_at(theta)
        made = replace(self, kernel=kernel, likelihood=likelihood)
        vars(made).update(self.names_and_bounds, theta=frozen(theta))
        return made

    @property
    def covariance(self) -> Covariance:
        """The kernel that all latent values share, or that of the first class."""
        return self.covariances[0]

    @property
    def prior(self) -> LatentPrior:
        """The prior over the latent values at the rows, computed when first needed.

        It refers to a copy of the problem that does not keep it alive: a cycle would leave its n×n matrices to the
        garbage collector, which counts objects and not bytes. So a problem taken from a prior computes the prior anew
        once that prior is gone.
        """
        known = vars(self).get("_prior")
        found: LatentPrior | None = known() if isinstance(known, ref) else known
        if found is None:
            own = copy(self)
            found = self.form.prior(own)
            vars(own)["_prior"], vars(self)["_prior"] = ref(found), found
        return found

    def __getstate__(self) -> dict[str, Any]:
        """Without the prior, which another process computes for itself."""
        return {name: value for name, value in vars(self).items() if name != "_prior"}

    def placed(self, rng: Generator) -> Problem:
        """The same problem once its form has chosen what it needs, such as inducing inputs, at this θ."""
        return replace(self, form=self.form.placed(self, rng))

    @property
    def inducing(self) -> Array | None:
        """Inducing inputs (m, d), if the form has any."""
        return self.form.inducing

    # ---- files ------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """What a file stores: rows only if predictions need them."""
        kept: dict[str, Any] = {
            "kernel": self.kernel,
            "likelihood": self.likelihood,
            "n_classes": self.n_classes,
            "form": self.form,
        }
        if self.form.predicts_from_rows:
            X, y, weights = self.rows.everything
            return {**kept, "X": X, "y": y, "weights": weights}
        return {**kept, "rows": self.rows}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Problem:
        """The problem of a file."""
        rows = state.get("rows")
        if rows is None:
            rows = state["form"].rows(ArraySource(state["X"], state["y"], state["weights"]))
        return cls(rows, state["kernel"], state["likelihood"], state["n_classes"], state["form"])


def sample_of(problem: Problem, most: int) -> Array:
    """A sample of the rows' features, (k, d), the same at every call."""
    from gpclass.latent.inducing import sample_rows  # it builds on the rows

    return problem.rows.take(sample_rows(problem.n, most, np.random.default_rng(0)))[0]
