#!/usr/bin/env python3
# Copyright (c) Meta Platforms, Inc. and affiliates.
#
# This source code is licensed under the MIT license found in the
# LICENSE file in the root directory of this source tree.

import math
import warnings

import torch
from botorch.acquisition import PosteriorMean, qLogNoisyExpectedImprovement
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.exceptions import UnsupportedError
from botorch.exceptions.warnings import BotorchWarning
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from botorch.utils.testing import BotorchTestCase
from botorch_community.acquisition.martingale_mixture import (
    get_acquisition_function_of_turn,
    MartingaleMixtureUpperConfidenceBound,
)
from gpytorch.kernels import MaternKernel, RBFKernel
from gpytorch.means import ZeroMean


class TestMartingaleMixtureUpperConfidenceBound(BotorchTestCase):
    def _model(self, n: int = 8, d: int = 2, kernel=None, **tkwargs):
        torch.manual_seed(n)
        X = torch.rand(n, d, **tkwargs)
        Y = (3.0 * X).sin().sum(-1, keepdim=True) + 0.1 * torch.randn(n, 1, **tkwargs)
        kernel = (kernel or RBFKernel()).to(**tkwargs).requires_grad_(False)
        kernel.lengthscale = 0.5
        options = {"mean_module": ZeroMean(), "outcome_transform": None}
        return SingleTaskGP(X, Y, covar_module=kernel, **options)

    def _acqf(self, model, **options):
        options = {"norm_bound": 5.0, "noise_std": 0.1, **options}
        return MartingaleMixtureUpperConfidenceBound(model, **options)

    def test_shapes_and_dtypes(self):
        for dtype in (torch.float, torch.double):
            tkwargs = {"dtype": dtype, "device": self.device}
            acqf = self._acqf(self._model(**tkwargs))
            for batch in ([], [3], [3, 2]):
                X = torch.rand(*batch, 1, 2, **tkwargs)
                value = acqf(X)
                self.assertEqual(value.shape, torch.Size(batch or [1]))
                self.assertEqual(value.dtype, dtype)
            with self.assertRaises(AssertionError):
                acqf(torch.rand(3, 2, 2, **tkwargs))
            lower, upper = acqf.band(torch.rand(4, 2, **tkwargs))
            self.assertTrue((lower <= upper).all())

    def test_signs(self):
        tkwargs = {"dtype": torch.double, "device": self.device}
        model, X = self._model(**tkwargs), torch.rand(4, 2, **tkwargs)
        lower, upper = self._acqf(model).band(X)
        self.assertAllClose(self._acqf(model)(X.unsqueeze(-2)), upper)
        self.assertAllClose(self._acqf(model, maximize=False)(X.unsqueeze(-2)), -lower)

    def test_gradient(self):
        tkwargs = {"dtype": torch.double, "device": self.device}
        for kernel in (RBFKernel(), MaternKernel(nu=2.5)):
            for maximize in (True, False):
                acqf = self._acqf(
                    self._model(kernel=kernel, **tkwargs), maximize=maximize
                )
                X = torch.rand(3, 1, 2, **tkwargs).requires_grad_(True)
                self.assertTrue(torch.autograd.gradcheck(acqf, X, atol=1e-5, rtol=1e-4))

    def test_one_observation_by_hand(self):
        # One outcome y at x: f(x)^2 <= k B^2 and (y - f(x))^2 <= R^2.
        tkwargs = {"dtype": torch.double, "device": self.device}
        model = self._model(n=1, **tkwargs)
        sigma, delta, norm, y = 0.1, 0.05, 5.0, float(model.train_targets)
        ratio = 1.0 / sigma**2
        squared = y**2 / (1.0 + ratio) + sigma**2 * math.log1p(ratio)
        radius = math.sqrt(squared + 2.0 * sigma**2 * math.log(1.0 / delta))
        lower, upper = self._acqf(model).band(model.train_inputs[0])
        self.assertAlmostEqual(float(upper), min(y + radius, norm), places=8)
        self.assertAlmostEqual(float(lower), max(y - radius, -norm), places=8)

    def test_far_from_the_data_the_rest_of_the_norm_is_left(self):
        # A function that explains the data has spent the least consistent norm there.
        tkwargs = {"dtype": torch.double, "device": self.device}
        model = self._model(**tkwargs)
        with self.assertWarns(BotorchWarning):
            least = self._acqf(model, norm_bound=1e-3).norm_bound
        lower, upper = self._acqf(model).band(torch.full((1, 2), 100.0, **tkwargs))
        left = math.sqrt(5.0**2 - least**2)
        self.assertAlmostEqual(float(upper), left, places=4)
        self.assertAlmostEqual(float(lower), -left, places=4)

    def test_wider_for_more_confidence_and_larger_norms(self):
        tkwargs = {"dtype": torch.double, "device": self.device}
        model, X = self._model(**tkwargs), torch.rand(20, 2, **tkwargs)
        _, upper = self._acqf(model).band(X)
        for options in ({"delta": 0.01}, {"norm_bound": 8.0}):
            _, other = self._acqf(model, **options).band(X)
            self.assertTrue((other >= upper - 1e-9).all())

    def test_contradiction(self):
        tkwargs = {"dtype": torch.double, "device": self.device}
        model = self._model(n=20, **tkwargs)
        with self.assertWarnsRegex(BotorchWarning, "No function of norm at most 0.01"):
            acqf = self._acqf(model, norm_bound=0.01)
        self.assertGreater(acqf.norm_bound, 0.01)
        lower, upper = acqf.band(torch.rand(9, 2, **tkwargs))
        self.assertTrue((lower <= upper).all())
        self.assertTrue(torch.isfinite(upper).all())

    def test_wrong_arguments(self):
        tkwargs = {"dtype": torch.double, "device": self.device}
        model = self._model(**tkwargs)
        for options in ({"norm_bound": 0.0}, {"noise_std": -1.0}, {"delta": 1.0}):
            with self.assertRaises(ValueError):
                self._acqf(model, **options)
        X, Y = model.train_inputs[0], model.train_targets.unsqueeze(-1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            standardized = SingleTaskGP(X, Y)
            several = SingleTaskGP(X, Y.repeat(1, 2), outcome_transform=None)
        with self.assertRaisesRegex(UnsupportedError, "outcome_transform=None"):
            self._acqf(standardized)
        with self.assertRaisesRegex(UnsupportedError, "one output"):
            self._acqf(several)

    def test_input_constructor_and_optimizer(self):
        tkwargs = {"dtype": torch.double, "device": self.device}
        model = self._model(**tkwargs)
        constructor = get_acqf_input_constructor(MartingaleMixtureUpperConfidenceBound)
        kwargs = constructor(model=model, norm_bound=5.0, noise_std=0.1)
        acqf = MartingaleMixtureUpperConfidenceBound(**kwargs)
        bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], **tkwargs)
        candidate, value = optimize_acqf(
            acqf, bounds, q=1, num_restarts=4, raw_samples=32
        )
        grid = torch.rand(500, 1, 2, **tkwargs)
        self.assertGreaterEqual(float(value), float(acqf(grid).max()) - 1e-6)
        self.assertAllClose(value, acqf(candidate).squeeze())

    def test_turns(self):
        tkwargs = {"dtype": torch.double, "device": self.device}
        grid = torch.rand(50, 1, 2, **tkwargs)
        for maximize in (True, False):
            bounds = [
                self._acqf(self._model(n=n, **tkwargs), maximize=maximize)
                for n in (9, 10, 11)
            ]
            upper, improvement, mean = (
                get_acquisition_function_of_turn(each, each.train_X) for each in bounds
            )
            self.assertIs(upper, bounds[0])
            self.assertIsInstance(improvement, qLogNoisyExpectedImprovement)
            self.assertIsInstance(mean, PosteriorMean)
            # All three prefer points where the outcome may be good.
            sign = 1.0 if maximize else -1.0
            worth = sign * bounds[2].model.posterior(grid).mean.flatten()
            self.assertAllClose(mean(grid), worth)
            best = improvement(grid).argmax()
            self.assertGreater(float(worth[best]), float(worth.median()))
