r"""What BoTorch's own tests ask of UpperConfidenceBound, for every acquisition function."""

import warnings
from copy import deepcopy
from pickle import dumps, loads

import pytest
import torch
from acquisitions import ACQUISITIONS, PENDING, POINTS, made
from botorch.exceptions import (
    BotorchTensorDimensionError,
    BotorchWarning,
    InputDataError,
)
from botorch.optim.initializers import is_nonnegative
from torch.testing import assert_close

from kernelucb import ConstraintWidth


@pytest.fixture(params=ACQUISITIONS)
def acqf(request):
    return made(request.param)


def test_shapes(acqf):
    flat = acqf(POINTS.unsqueeze(1))
    assert flat.shape == (6,)
    assert_close(acqf(POINTS.reshape(2, 3, 1, 2)), flat.reshape(2, 3))
    assert_close(acqf(POINTS[:1]), flat[:1])
    assert is_nonnegative(acqf) is False


def test_other_shapes(acqf):
    for shape in ((2,), (6, 2), (3, 2, 2), (3, 1, 5)):
        with pytest.raises(BotorchTensorDimensionError):
            acqf(torch.zeros(shape, dtype=torch.float64))


def test_dtype_and_gradient(acqf):
    X = POINTS.unsqueeze(1).clone().requires_grad_(True)
    values = acqf(X)
    values.sum().backward()
    assert values.dtype == torch.float64
    assert bool(X.grad.isfinite().all())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        single = acqf(POINTS.unsqueeze(1).float())
    assert single.dtype == torch.float32


def test_copies(acqf):
    expected = acqf(POINTS.unsqueeze(1))
    for twin in (deepcopy(acqf), loads(dumps(acqf))):
        assert_close(twin(POINTS.unsqueeze(1)), expected)
        if not isinstance(acqf, ConstraintWidth):
            twin.set_X_pending(PENDING)
            assert acqf.X_pending is None
            assert_close(acqf(POINTS.unsqueeze(1)), expected)


def test_pending_points(acqf):
    if isinstance(acqf, ConstraintWidth):
        return
    expected = acqf(POINTS.unsqueeze(1))
    with pytest.warns(BotorchWarning, match="require a gradient"):
        acqf.set_X_pending(PENDING.clone().requires_grad_(True))
    assert torch.equal(acqf.X_pending, PENDING)
    assert not acqf.X_pending.requires_grad
    conditioned = acqf(POINTS.unsqueeze(1))
    for wrong in (PENDING.unsqueeze(0), PENDING[:, :1], PENDING / 0.0):
        with pytest.raises((BotorchTensorDimensionError, InputDataError)):
            acqf.set_X_pending(wrong)
        assert torch.equal(acqf.X_pending, PENDING)
        assert_close(acqf(POINTS.unsqueeze(1)), conditioned)
    acqf.X_pending = None
    assert_close(acqf(POINTS.unsqueeze(1)), expected)


def test_names_that_mean_something_else_to_botorch(acqf):
    for name in ("constraints", "objective", "X_baseline", "best_f", "sampler"):
        assert not hasattr(acqf, name)
