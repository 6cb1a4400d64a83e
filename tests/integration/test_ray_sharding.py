r"""Candidates sharded over two Ray workers: the result of one process, whatever fails."""

import os
import sys

import pytest
import torch
from botorch.acquisition import AcquisitionFunction
from botorch.exceptions import InputDataError

from kernelucb import MartingaleMixtureUCB
from kernelucb.optim import chunked, sharded
from problems import make_problem, uniform

ray = pytest.importorskip("ray", reason="needs Ray: pip install kernelucb[ray]")

# Ray's own start-up: it leaves sockets and subprocess handles to the collector, and warns
# about its future defaults.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning:ray"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"),
]

CHUNK = 100
CANDIDATES = uniform(1050, 2, 1)


@pytest.fixture(scope="module", autouse=True)
def two_workers():
    r"""A cluster of two machines with one processor each."""
    from ray.cluster_utils import Cluster

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    # Ray's workers would give way to everything else on a busy machine.
    os.environ.setdefault("RAY_worker_niceness", "0")
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        cluster.add_node(num_cpus=1)
        ray.init(address=cluster.address, log_to_driver=False)
        yield
    finally:
        ray.shutdown()
        cluster.shutdown()
        ray.cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


class Stub(AcquisitionFunction):
    r"""The first coordinate; can kill its worker, or turn into NaN."""

    def __init__(self, marker=None, nan_at=None):
        torch.nn.Module.__init__(self)
        self.marker, self.nan_at = marker, nan_at

    def forward(self, X):
        values = X[:, 0, 0].clone()
        if self.marker is not None and bool((values == CANDIDATES[500, 0]).any()):
            with open(self.marker, "a+") as file:
                file.seek(0)
                past = len(file.read())
                file.write("x")
            if past == 0:
                os._exit(1)
        if self.nan_at is not None:
            values[(X[:, 0] == CANDIDATES[self.nan_at]).all(-1)] = torch.nan
        return values


def assert_same(best, other):
    assert torch.equal(best.point, other.point)
    assert best[1:] == other[1:]


@pytest.mark.parametrize("num_shards", [None, 1, 3, 1000])
@pytest.mark.parametrize("maximize", [True, False])
def test_the_result_is_that_of_one_process_to_the_last_bit(num_shards, maximize):
    model = make_problem(n=20, d=2, kernel="matern52").model
    options = {"maximize": maximize, "X_pending": CANDIDATES[:2]}
    acqf = MartingaleMixtureUCB(model, norm_bound=3.0, **options)
    for candidates in (CANDIDATES[:50], CANDIDATES):
        one = chunked.argmax(acqf, candidates, CHUNK)
        assert_same(sharded.argmax(acqf, candidates, CHUNK, num_shards), one)


def test_it_connects_by_itself(monkeypatch):
    called = []
    monkeypatch.setattr(ray, "is_initialized", lambda: bool(called))
    monkeypatch.setattr(ray, "init", lambda: called.append(True))
    assert_same(sharded.argmax(Stub(), CANDIDATES), chunked.argmax(Stub(), CANDIDATES))
    assert called


def test_a_killed_worker_loses_nothing(tmp_path):
    marker = tmp_path / "tries"
    ours = sharded.argmax(Stub(str(marker)), CANDIDATES, CHUNK)
    assert_same(ours, chunked.argmax(Stub(), CANDIDATES, CHUNK))
    assert marker.read_text() == "xx"  # killed once, repeated once


def test_errors_are_those_of_one_process():
    with pytest.raises(InputDataError, match=r"from candidate 700: .*candidate 33"):
        sharded.argmax(Stub(nan_at=733), CANDIDATES, CHUNK, num_shards=11)
