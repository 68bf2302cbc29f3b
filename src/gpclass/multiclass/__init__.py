"""Many classes: joint softmax Laplace, multinomial probit by EP and exactly."""

from gpclass.multiclass.likelihoods import MULTI_LIKELIHOODS, MultiLikelihood, MultinomialProbit, Softmax
from gpclass.multiclass.problem import MultiProblem

__all__ = ["MULTI_LIKELIHOODS", "MultiLikelihood", "MultiProblem", "MultinomialProbit", "Softmax"]
