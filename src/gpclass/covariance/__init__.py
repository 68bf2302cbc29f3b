"""Fast evaluation of scikit-learn kernels: values, diagonal, and derivatives contracted with a matrix."""

from gpclass.covariance.compiled import Covariance, Pullback, compile_kernel

__all__ = ["Covariance", "Pullback", "compile_kernel"]
