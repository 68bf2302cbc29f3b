"""Rows, labels, and the problem that they make with a kernel and a likelihood."""
