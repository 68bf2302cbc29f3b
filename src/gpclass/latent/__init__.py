"""Priors over the latent values: dense, or low rank through inducing inputs."""
