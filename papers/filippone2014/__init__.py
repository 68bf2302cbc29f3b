"""Filippone (2014): exact sampling of kernel parameters with annealed importance sampling."""
