"""Every method by name, with what it can do, what it costs and whom to cite.

The table of :mod:`gpclass.registry.rows` is the only list: the estimator's error messages, the command line, the
documentation and the tests are derived from it. To add a method, write its file and add its row there.
"""

from gpclass.registry.lookup import get_inference, get_strategy
from gpclass.registry.pairs import check_pair, choose_likelihood, takes_many
from gpclass.registry.rows import INFERENCES, STRATEGIES, Method, methods
from gpclass.registry.variants import for_many, for_sparse

__all__ = [
    "INFERENCES",
    "STRATEGIES",
    "Method",
    "check_pair",
    "choose_likelihood",
    "for_many",
    "for_sparse",
    "get_inference",
    "get_strategy",
    "methods",
    "takes_many",
]
