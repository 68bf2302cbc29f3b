"""Inference with the kernel parameters fixed: one file per method.

An inference is a frozen dataclass of settings that is callable: ``(problem, noise, *, start, gradient)`` to a
:class:`~gpclass.posterior.Posterior`. Names are defined in :mod:`gpclass.registry`.
"""

from gpclass.inference.amp import AMP
from gpclass.inference.annealed import Annealed
from gpclass.inference.control_variables import ControlVariables
from gpclass.inference.dsgq import DSGQ
from gpclass.inference.elliptical_slice import EllipticalSlice
from gpclass.inference.ep import EP
from gpclass.inference.exact import Exact
from gpclass.inference.gibbs import Gibbs
from gpclass.inference.gpc_mc import GPCMC
from gpclass.inference.hmc import LatentHMC
from gpclass.inference.importance import Importance
from gpclass.inference.laplace import Laplace
from gpclass.inference.local_exact import LocalExact
from gpclass.inference.variational import Variational

__all__ = [
    "AMP",
    "DSGQ",
    "EP",
    "GPCMC",
    "Annealed",
    "ControlVariables",
    "EllipticalSlice",
    "Exact",
    "Gibbs",
    "Importance",
    "Laplace",
    "LatentHMC",
    "LocalExact",
    "Variational",
]
