"""Every method by name, with what it can do, what it costs and whom to cite.

The table of :mod:`gpclass.registry.rows` is the only list; valid combinations are computed in
:mod:`gpclass.registry.matrix`. Error messages, the command line, the documentation and the tests are derived from
both. To add a method, write its file and add its row there.
"""

from gpclass.registry.matrix import (
    Cell,
    cell,
    cells,
    check_combination,
    choose_likelihood,
    counts,
    goes_with,
    inferences_for,
    takes_many,
)
from gpclass.registry.rows import FORMS, INFERENCES, STRATEGIES, Method, get_form, get_inference, get_strategy, methods

__all__ = [
    "FORMS",
    "INFERENCES",
    "STRATEGIES",
    "Cell",
    "Method",
    "cell",
    "cells",
    "check_combination",
    "choose_likelihood",
    "counts",
    "get_form",
    "get_inference",
    "get_strategy",
    "goes_with",
    "inferences_for",
    "methods",
    "takes_many",
]
