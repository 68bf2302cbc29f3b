"""Cho, Kim & Park (2015): variational EM with Laplace's approximation for many classes."""
