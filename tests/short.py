"""Inferences with few draws, for tests whose claim does not depend on how many there are."""

from gpclass.inference import GPCMC, Annealed, ControlVariables, EllipticalSlice, Exact, Gibbs, Importance, LatentHMC

SHORT = {
    "exact": Exact(n_samples=200),
    "importance": Importance(200),
    "annealed": Annealed(60),
    "elliptical-slice": EllipticalSlice(chains=2, draws=20, thin=1),
    "hmc": LatentHMC(chains=4, draws=20),
    "control-variables": ControlVariables(chains=2, draws=20),
    "gibbs": Gibbs(chains=8, warmup=4, draws=8, jitter=0.3),
    "gpc-mc": GPCMC(n_samples=2000, runs=4),
    "gpc-mc-hard": GPCMC(n_samples=2000, runs=4, soft=False),
}


def short(name):
    """The inference of a name, with few draws if it draws."""
    return SHORT.get(name, name)
