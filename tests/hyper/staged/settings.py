"""Settings of climbs with inducing inputs, in one call."""

from gpclass.hyper import Map, Maximize, Stages


def climb_of(*, prior=False, max_iter=None, tol=None, checkpoint=None, **stages):
    """``maximize`` (or ``map``, with a prior) whose other settings are those of its stages."""
    return (Map if prior else Maximize)(max_iter=max_iter, tol=tol, checkpoint=checkpoint, stages=Stages(**stages))
