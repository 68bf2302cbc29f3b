"""A process that is killed while it saves leaves a whole file, the old or the new one."""

import os
import signal
import time

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from gpclass import GPClassifier, load_model

KILLS = 30


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # the child writes files and does nothing else
def test_kills_during_save_leave_a_whole_file(tmp_path):
    rng = np.random.default_rng(0)
    X, path = rng.standard_normal((40, 2)), tmp_path / "m.gpclass"
    models = [GPClassifier(RBF(scale), inference="ep", hyperparameters="fixed").fit(X, X[:, 0] > 0) for scale in (1, 2)]
    answers = [model.predict_proba(X) for model in models]
    models[0].save(path)
    began = time.perf_counter()
    models[0].save(path)
    once, halves, found = time.perf_counter() - began, 0, set()
    for k in range(KILLS):
        child = os.fork()
        if child == 0:
            while True:
                for model in models:
                    model.save(path)
        time.sleep(rng.uniform(1, 4) * once * (1 + k / 5))  # a child may be slower than its parent was
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        p = load_model(path).predict_proba(X)
        found |= {k for k, answer in enumerate(answers) if np.array_equal(p, answer)}
        assert any(np.array_equal(p, answer) for answer in answers)
        halves += len(list(tmp_path.iterdir())) > 1
        for draft in set(tmp_path.iterdir()) - {path}:
            draft.unlink()
    assert found == {0, 1}
    assert halves > 0  # some kills came in the middle of a file
