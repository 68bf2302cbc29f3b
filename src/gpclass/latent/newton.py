"""Which numbers of a row Newton's method stores, L of each: its layout in the shards of every prior.

The latent values and α = K⁻¹f at the mode so far, the residual of the mode's equation, the step of both, and the site
that the likelihood's derivatives make there, of precision D and shift b.
"""

F, ALPHA, RESIDUAL, STEP_ALPHA, STEP_F, SITE_D, SITE_B = range(7)
NUMBERS = 7
