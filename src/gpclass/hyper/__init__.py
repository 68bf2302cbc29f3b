"""Strategies for the kernel parameters: one file each.

A strategy is a frozen dataclass of settings that is callable: ``(problem, inference, run)`` to a
:class:`~gpclass.hyper.base.Fit`. Names are defined in :mod:`gpclass.registry`.
"""

from gpclass.hyper.alternate import Alternate
from gpclass.hyper.cross_validation import CrossValidation
from gpclass.hyper.em import EM
from gpclass.hyper.fixed import Fixed
from gpclass.hyper.hmc import HMC
from gpclass.hyper.maximize import Map, Maximize
from gpclass.hyper.nelder_mead import NelderMead
from gpclass.hyper.pseudo_marginal import PseudoMarginal
from gpclass.hyper.staged.settings import Stages

__all__ = [
    "EM",
    "HMC",
    "Alternate",
    "CrossValidation",
    "Fixed",
    "Map",
    "Maximize",
    "NelderMead",
    "PseudoMarginal",
    "Stages",
]
