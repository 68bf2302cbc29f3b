"""GPC-MC, the particle algorithm of Atiya et al.: draw, reject, refill from the survivors.

For each training point in turn M values of v_i = y_i z_i are drawn given the earlier ones, those below zero are
dropped and replaced by survivors, and the share that survived multiplies the evidence: a count for ``gpc-mc-hard``
(unbiased), the mean of the conditional probabilities for ``gpc-mc`` (the paper's soft count, biased at finite M).
The particles after the last point are draws of the posterior, kept for any test point (the paper's section 5.6).
Included for comparison: ``exact`` needs thousands of times fewer draws for the same error.
Cost: n³/3 + O(nM) for the evidence where a share of the points dies at every step, as their common histories are
multiplied once; n²M multiply-adds, as matrix products, for the posterior of the draws; O(nM) memory. P (never log P) is
averaged over runs. Fails when: no draw survives a point, as with large kernel variances: an error names the point.
Reference: Atiya, Abdel-Gawad & Fayed (2020), sections 5.1-5.7.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from scipy.special import softmax

from gpclass._typing import Generator
from gpclass.inference.base import Inference, Way
from gpclass.inference.noise import noise_factor, noisy_latents
from gpclass.inference.posteriors import NoisyDraws
from gpclass.latent.sites import Start
from gpclass.model.problem import Problem
from gpclass.orthant.bootstrap import bootstrap
from gpclass.orthant.plan import coordinate_order
from gpclass.orthant.weights import effective_size
from gpclass.posterior import Evidence, Posterior, Report


@dataclass(frozen=True)
class GPCMC(Inference):
    """Settings of GPC-MC.

    Parameters
    ----------
    n_samples : int
        Draws, over all runs.
    soft : bool
        The soft count (``gpc-mc``) or the hard one (``gpc-mc-hard``).
    runs : int
        Independent runs, whose spread gives the error of the probabilities.
    order : {"random", "interleaved", "given"}
        Order in which training points are visited; the paper's section 6.2 explains why sorted classes are bad.
    """

    n_samples: int = 10_000
    soft: bool = True
    runs: int = 20
    order: str = "random"

    ways: ClassVar[tuple[Way, ...]] = (Way.needs("orthant", "box"),)
    limits: ClassVar = {"order": ("random", "interleaved", "given")}

    @property
    def name(self) -> str:  # type: ignore[override]  # by its setting
        """Its name in the registry."""
        return "gpc-mc" if self.soft else "gpc-mc-hard"

    @property
    def evidence_kind(self) -> str | None:  # type: ignore[override]  # by its setting
        """The soft count is biased at finite M."""
        return "approximate" if self.soft else "unbiased"

    def brief(self) -> Self:
        return replace(self, n_samples=2000)

    def posterior_type(self, problem: Problem) -> type[Posterior]:
        return NoisyDraws

    def infer(self, problem: Problem, rng: Generator, start: Start | None, gradient: bool) -> NoisyDraws:
        rows = problem.repeated()
        if rows is None:
            raise ValueError(f"inference={self.name!r} takes whole-number weights; use inference='ep' for others")
        problem, box = rows, rows.prior.box()
        place = coordinate_order(self.order, box, rng)  # type: ignore[arg-type]  # one of limits
        box = box.take(place)
        result = bootstrap(box, self.n_samples, rng, soft=self.soft, runs=self.runs, keep=True)
        if result.x is None or not len(result.log_w):
            point = int(place[result.extinct[0]]) // max(1, problem.n_latents - 1)
            raise ValueError(
                f"no draw of {self.n_samples} survived training point {point} "
                f"(step {result.extinct[0] + 1} of {box.n}): "
                "its probability given the earlier points is too small for this method; use inference='exact', or more "
                f"n_samples in {type(self).__name__}(n_samples=...)"
            )
        v = box.restore(result.x)
        factor = noise_factor(problem)
        A = noisy_latents(problem, factor, v, rng.spawn(1)[0] if problem.n_latents > 1 else None)
        details: dict[str, Any] = {}
        if problem.n_latents > 1:
            memory = 8 * (2 * box.n**2 + v.size + A.size) / 2**20
            details = {"n_classes": problem.n_latents, "orthant_dimension": box.n, "memory_mb": memory}
        died = f"{len(result.extinct)} of {self.runs} runs died out and count as probability 0"
        return NoisyDraws(
            problem=problem,
            factor=factor,
            A=A,
            weights=softmax(result.log_w),
            group=result.group,
            evidence=Evidence(result.log_p, result.error, str(self.evidence_kind)),
            report=Report(
                method=self.name,
                n_samples=self.n_samples,
                ess=effective_size(result.log_w),
                warnings=(died,) if result.extinct else (),
                details=details,
            ),
        )
