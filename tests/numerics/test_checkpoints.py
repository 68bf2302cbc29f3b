"""Checkpoints belong to one model to the last digit, and a damaged one says what to do."""

import io
import json
import struct
import warnings
import zipfile

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.gaussian_process.kernels import ConstantKernel as C

from gpclass import GPClassifier
from gpclass.hyper import Maximize, PseudoMarginal

OTHER = "holds .* of other data or settings; remove it or give another path"
DAMAGED = "cannot be read .*; remove it or give another path"


def rows(n=30):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 2))
    return X, (X[:, 0] + 0.5 * rng.standard_normal(n) > 0).astype(int)


def chains(kernel, path):
    pytest.importorskip("arviz")
    strategy = PseudoMarginal(chains=1, warmup=4, discard=0, draws=4, checkpoint=path)
    return GPClassifier(kernel, inference="importance", hyperparameters=strategy, random_state=0)


def staged(kernel, path):
    strategy = Maximize(max_iter=1, checkpoint=path)
    return GPClassifier(
        kernel, inference="ep", hyperparameters=strategy, n_inducing=4, inducing="random", random_state=0
    )


def fit(make, kernel, path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make(kernel, path).fit(*rows())


@pytest.fixture(params=[chains, staged], ids=["chains", "staged"])
def make(request):
    return request.param


@pytest.mark.slow
@pytest.mark.parametrize(
    ("one", "other"),
    [
        (C(2.00001) * RBF(1.0), C(2.00002) * RBF(1.0)),
        (C(2.0) * RBF(1.0, (1e-5, 1e5)), C(2.0) * RBF(1.0, (1e-5, 1.00001e5))),
        (RBF(1.0) + WhiteKernel(1.00001, "fixed"), RBF(1.0) + WhiteKernel(1.00002, "fixed")),
    ],
    ids=["fifth digit", "bounds", "fifth digit of a fixed parameter"],
)
def test_a_checkpoint_of_another_kernel_is_refused(make, one, other, tmp_path):
    path = tmp_path / "fit.npz"
    first = fit(make, one, path)
    again = fit(make, one, path)  # taken up
    np.testing.assert_array_equal(first.theta_, again.theta_)
    kept = path.read_bytes()
    with pytest.raises(ValueError, match=OTHER):
        fit(make, other, path)
    assert path.read_bytes() == kept


def cut(data):
    return data[:-100]


def flip(data):
    """One byte within the longest array; a byte of a header may be one that nobody reads."""
    longest = max(zipfile.ZipFile(io.BytesIO(data)).infolist(), key=lambda entry: entry.compress_size)
    names = data[longest.header_offset + 26 : longest.header_offset + 30]
    begin = longest.header_offset + 30 + sum(struct.unpack("<HH", names))
    at = begin + longest.compress_size // 2
    return data[:at] + bytes([data[at] ^ 255]) + data[at + 1 :]


DAMAGE = {
    "cut": cut,
    "begun": lambda data: data[:200],
    "empty": lambda data: b"",
    "one byte": flip,
    "text": lambda data: b"not an archive",
}


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_checkpoint_names_the_cure(make, damage, tmp_path):
    path = tmp_path / "fit.npz"
    fit(make, RBF(1.0), path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=DAMAGED):
        fit(make, RBF(1.0), path)


@pytest.mark.parametrize("head", ["[]", "{}", "{", None])
def test_an_archive_that_is_no_checkpoint_names_the_cure(make, head, tmp_path):
    path = tmp_path / "fit.npz"
    np.savez(path, **({} if head is None else {"head": np.array(head)}))
    with pytest.raises(ValueError, match=f"{DAMAGED}|{OTHER}"):
        fit(make, RBF(1.0), path)


def test_chains_that_lack_their_records_name_the_cure(tmp_path):
    path = tmp_path / "fit.npz"
    fit(chains, RBF(1.0), path)
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    head = json.loads(str(arrays["head"]))
    head["chains"][0]["rng"] = {"bit_generator": "none"}
    np.savez(path, **{**arrays, "head": np.array(json.dumps(head))})
    with pytest.raises(ValueError, match=DAMAGED):
        fit(chains, RBF(1.0), path)


def test_a_file_of_one_array_is_no_checkpoint(make, tmp_path):
    path = tmp_path / "fit.npz"
    with path.open("wb") as file:
        np.save(file, np.arange(3.0))
    with pytest.raises(ValueError, match=DAMAGED):
        fit(make, RBF(1.0), path)
