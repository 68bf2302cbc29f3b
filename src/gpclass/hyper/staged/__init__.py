"""Evidence maximisation with inducing inputs: from few rows to all."""
