"""Models in files: arrays plus JSON, versioned, checksummed, no pickle.

>>> import tempfile, pathlib
>>> from sklearn.datasets import make_moons
>>> from gpclass import GPClassifier, load_model
>>> X, y = make_moons(40, noise=0.2, random_state=0)
>>> clf = GPClassifier(hyperparameters="fixed").fit(X, y)
>>> path = clf.save(pathlib.Path(tempfile.mkdtemp()) / "moons.gpclass")
>>> bool((load_model(path).predict_proba(X) == clf.predict_proba(X)).all())
True
"""

from gpclass.persistence.container import ModelFileError, load_model, save_model
from gpclass.persistence.values import NotSavableError, register

__all__ = ["ModelFileError", "NotSavableError", "load_model", "register", "save_model"]
