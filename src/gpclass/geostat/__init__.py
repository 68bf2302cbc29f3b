"""Geostatistics: indicator kriging, variograms and Aitchison's geometry of probabilities."""
