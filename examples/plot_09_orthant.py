"""
Normal probabilities of boxes
=============================

The exact classifier is based on one integral: the probability that a Gaussian vector lies in an orthant, or in any
box. It is also available as a function.
"""

import matplotlib.pyplot as plt
import numpy as np

from gpclass import orthant_probability

# %%
# With correlation ½ between all pairs the probability that n normals are all positive is 1/(n + 1).
for n in (10, 100, 300):
    est = orthant_probability(0.5 * np.eye(n) + 0.5, random_state=0)
    print(f"n = {n}: log P = {est.log_probability:.5f} ± {est.standard_error:.5f}, truth {-np.log(n + 1):.5f}")

# %%
# Error against the number of draws, for three methods on the same problem (n = 60).
n, truth = 60, -np.log(61)
draws = np.array([250, 1000, 4000])
fig, ax = plt.subplots(figsize=(6, 4))
for method in ("guided", "sov", "bootstrap-soft"):
    error = []
    for m in draws:
        runs = [
            orthant_probability(0.5 * np.eye(n) + 0.5, method=method, n_samples=int(m), random_state=seed)
            for seed in range(8)
        ]
        error.append(np.sqrt(np.mean([(r.log_probability - truth) ** 2 for r in runs])))
    ax.loglog(draws, error, "o-", label=method)
ax.set(xlabel="draws", ylabel="root mean square error of log P", title="Eight seeds each")
ax.set_xticks(draws, [str(m) for m in draws])
ax.minorticks_off()
ax.legend()
plt.show()
