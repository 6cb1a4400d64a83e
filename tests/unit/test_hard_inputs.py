"""Inputs that break numerics or assumptions: the right band, or a typed error."""

import pytest
import torch
from botorch.exceptions import (
    BotorchTensorDimensionError,
    InputDataError,
    UnsupportedError,
)
from botorch.models import SingleTaskGP
from botorch.models.contextual import LCEAGP
from botorch.models.transforms import Normalize
from gpytorch.kernels import (
    AdditiveKernel,
    LinearKernel,
    MaternKernel,
    PeriodicKernel,
    PiecewisePolynomialKernel,
    PolynomialKernel,
    ProductKernel,
    RBFKernel,
    RBFKernelGrad,
    RQKernel,
    ScaleKernel,
)

from kernelucb import (
    BKBBandit,
    FamilyBandit,
    KernelBandit,
    KernelRegression,
    MartingaleMixtureUCB,
    NystromRegression,
    information_gain,
)
from kernelucb._numerics.kernels import read_kernel
from kernelucb.models import BKBModel
from tolerances import KERNEL, REARRANGED

# Models are made of data as they come, in single precision as well.
pytestmark = pytest.mark.filterwarnings(
    "ignore::botorch.exceptions.warnings.InputDataWarning"
)

KERNELS = {
    "rbf": lambda: RBFKernel(ard_num_dims=3),
    "matern 1/2": lambda: MaternKernel(0.5),
    "matern 3/2": lambda: MaternKernel(1.5, ard_num_dims=3),
    "matern 5/2": lambda: MaternKernel(2.5),
    "rational quadratic": RQKernel,
    "scaled, active columns": lambda: ScaleKernel(RBFKernel(active_dims=(0, 2))),
    "sum": lambda: ScaleKernel(RBFKernel(active_dims=(1,))) + LinearKernel(),
    "product": lambda: ScaleKernel(MaternKernel(2.5) * PeriodicKernel(active_dims=(2,))),
    "nested": lambda: AdditiveKernel(
        RBFKernel(active_dims=(0, 1)),
        ProductKernel(RBFKernel(active_dims=(1,)), LinearKernel(active_dims=(2,))),
    ),
    "periodic": PeriodicKernel,
    "piecewise polynomial": lambda: PiecewisePolynomialKernel(2),
}


UNFIT = {
    "other columns": RBFKernel(ard_num_dims=5).double(),
    "a column that is not there": RBFKernel(active_dims=(7,)).double(),
    "derivatives": RBFKernelGrad().double(),
    "a batch": RBFKernel(batch_shape=torch.Size([2])).double(),
}


def points(count: int, dimension: int = 3, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(count, dimension, dtype=torch.float64, generator=generator)


def outcomes(X: torch.Tensor) -> torch.Tensor:
    return torch.sin(5.0 * X).sum(-1, keepdim=True)


def make_model(kernel=None, X=None, **options) -> SingleTaskGP:
    X = points(12) if X is None else X
    model = SingleTaskGP(X, outcomes(X), covar_module=kernel, **options)
    model.likelihood.noise = 0.01
    return model


class TestOwnKernelValues:
    @pytest.mark.parametrize("make", KERNELS.values(), ids=KERNELS)
    def test_values_diagonal_and_gradients_are_gpytorchs(self, make):
        kernel, left, right = make().double(), points(7), points(5, seed=1)
        left.requires_grad_()
        weights = points(7, 5, seed=2)
        plain = read_kernel(kernel)
        own, theirs = plain.values(left, right), kernel(left, right).to_dense()
        assert torch.allclose(own, theirs, rtol=0, atol=KERNEL)
        gradients = [
            torch.autograd.grad((value * weights).sum(), left, retain_graph=True)[0]
            for value in (own, theirs)
        ]
        assert torch.allclose(*gradients, rtol=0, atol=KERNEL)
        pairs = plain.values(left[:5], right, pairs=True)
        assert torch.allclose(pairs, theirs[:5].diagonal(), rtol=0, atol=KERNEL)

    @pytest.mark.parametrize("name", [name for name in KERNELS if name[:9] != "piecewise"])
    def test_twice_differentiable(self, name):
        plain, right = read_kernel(KERNELS[name]().double()), points(4, seed=1)
        left = points(3).requires_grad_()
        assert torch.autograd.gradgradcheck(
            lambda X: plain.values(X, right), left, atol=1e-6
        )


class TestFarPoints:
    """GPyTorch centres distances on all points in the call; a band must not."""

    @pytest.mark.parametrize("make", KERNELS.values(), ids=KERNELS)
    def test_do_not_change_the_bands_of_others(self, make):
        acqf = MartingaleMixtureUCB(make_model(make()), norm_bound=10.0, fit="martingale")
        near = points(20, seed=3)
        far = 1e8 * points(20, seed=4)
        alone = torch.stack(acqf.bounds(near))
        together = torch.stack(acqf.bounds(torch.cat([near, far])))[:, :20]
        assert torch.allclose(together, alone, rtol=0, atol=REARRANGED)
        values = acqf(torch.cat([near, far]).unsqueeze(-2))[:20]
        assert torch.allclose(values, alone[1], rtol=0, atol=REARRANGED)

    def test_inputs_spread_over_a_million_length_scales(self):
        kernel = RBFKernel().double()
        kernel.lengthscale = 1e-6
        base = points(6)
        X = torch.cat([base, base + 1e-6 * points(6, seed=1)])
        state = KernelRegression(X, outcomes(X), kernel, 1e-3)
        scaled = RBFKernel().double()
        scaled.lengthscale = 1.0
        steps = (X.unsqueeze(-2) - X) / 1e-6  # exact enough: differences first
        matrix = torch.exp(-0.5 * steps.square().sum(-1))
        own = state.prior.covariance(X, X)
        # An input of 1e6 length scales is rounded by 1e6 eps of one of them.
        assert torch.allclose(own, matrix, rtol=0, atol=1e6 * KERNEL)


class WarpedForward(SingleTaskGP):
    def forward(self, x):
        return super().forward(x**3)


class OtherMean(SingleTaskGP):
    def forward(self, x):
        prior = super().forward(x)
        return type(prior)(prior.mean + 0.1, prior.lazy_covariance_matrix)


class OwnPosterior(SingleTaskGP):
    def posterior(self, X, **options):
        return super().posterior(X**3, **options)


class SamePosterior(SingleTaskGP):
    def posterior(self, X, **options):
        return super().posterior(X, **options)


class OwnTransform(SingleTaskGP):
    def transform_inputs(self, X, input_transform=None):
        return X**3


class SameForward(SingleTaskGP):
    def forward(self, x):
        return super().forward(x)


class TestModelsOfTheirOwn:
    @pytest.mark.parametrize("kind", [WarpedForward, OtherMean, OwnPosterior, OwnTransform])
    @pytest.mark.parametrize("count", [1, 12])
    def test_another_prior_than_kernel_and_mean_is_refused(self, kind, count):
        X = points(count)
        model = kind(X, outcomes(X), outcome_transform=None)
        with pytest.raises(UnsupportedError, match="SingleTaskGP"):
            KernelRegression.from_model(model)

    @pytest.mark.parametrize("kind", [SameForward, SamePosterior])
    def test_methods_that_say_the_same_are_taken(self, kind):
        X = points(12)
        own, plain = kind(X, outcomes(X)), SingleTaskGP(X, outcomes(X))
        means = [KernelRegression.from_model(model).mean(X) for model in (own, plain)]
        assert torch.equal(*means)

    def test_single_precision_passes_the_comparison(self):
        X = points(50).float()
        model = SingleTaskGP(X, outcomes(X), input_transform=Normalize(3))
        assert KernelRegression.from_model(model).num_observations == 50

    def test_kernels_with_derivatives_are_refused(self):
        with pytest.raises(UnsupportedError, match="one value"):
            KernelRegression.from_model(make_model(ScaleKernel(RBFKernelGrad())))

    @pytest.mark.parametrize("kernel", UNFIT.values(), ids=UNFIT)
    def test_kernels_that_do_not_fit_the_inputs_are_refused(self, kernel):
        X, noise = points(6), {"noise_std": 0.1}
        budget = {"norm_bound": 1.0, **noise}
        uses = (
            lambda: KernelRegression(X, outcomes(X), kernel, 0.1),
            lambda: NystromRegression(X, outcomes(X), kernel, 0.1, X[:3]),
            lambda: KernelBandit(kernel, **budget).bounds(X),
            lambda: KernelBandit(kernel, **budget).observe(X[0], 1.0),
            lambda: FamilyBandit([kernel], **budget).bounds(X),
            lambda: FamilyBandit([kernel], **budget).observe(X[0], 1.0),
            lambda: BKBBandit(X, kernel, **budget),
            lambda: BKBModel(X, outcomes(X), kernel, 0.01),
            lambda: information_gain(kernel, X, **noise),
        )
        for use in uses:
            with pytest.raises(UnsupportedError, match=r"columns|one value"):
                use()

    def test_pending_points_of_another_width_are_refused(self):
        state = KernelRegression.from_model(make_model())
        sketch = NystromRegression.from_model(make_model(), points(4))
        for wrong in (points(3, 2), points(6).reshape(2, 3, 3)):
            for each in (state, sketch):
                with pytest.raises(BotorchTensorDimensionError, match="b x 3"):
                    each.with_pending(wrong)

    def test_kernels_that_cannot_be_copied_are_refused(self):
        X = points(10, 4)
        model = LCEAGP(X, outcomes(X), None, decomposition={"a": [0, 1], "b": [2, 3]})
        with pytest.raises(UnsupportedError, match="cannot be copied"):
            KernelRegression.from_model(model)


class TestPoints:
    @pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex128])
    def test_other_numbers_than_real_ones_are_refused(self, dtype):
        acqf = MartingaleMixtureUCB(make_model(), norm_bound=10.0)
        X = points(4).to(dtype)
        for use in (acqf.bounds, acqf.regression.mean, acqf.regression.variance):
            with pytest.raises(InputDataError, match="floating"):
                use(X)
        with pytest.raises(InputDataError, match="floating"):
            acqf(X.unsqueeze(-2))

    def test_nan_and_wrong_columns_are_refused_by_the_state(self):
        state = KernelRegression.from_model(make_model())
        X = points(4)
        X[2, 1] = torch.nan
        for use in (state.mean, state.variance):
            with pytest.raises(InputDataError, match="NaN"):
                use(X)
            with pytest.raises(BotorchTensorDimensionError, match="b x 3"):
                use(points(4, 2))

    @pytest.mark.parametrize("size", [1e80, 1e160])
    def test_points_whose_squares_overflow_are_refused(self, size):
        acqf = MartingaleMixtureUCB(make_model(), norm_bound=10.0)
        with pytest.raises(InputDataError, match="units"):
            acqf.bounds(size * points(3))

    def test_a_kernel_that_overflows_at_the_points_is_refused(self):
        state = KernelRegression(points(4), outcomes(points(4)), PolynomialKernel(8), 1.0)
        with pytest.raises(InputDataError, match="not finite"):
            state.mean(1e40 * points(3))

    def test_a_kernel_that_overflows_at_the_data_is_refused(self):
        X = 1e40 * points(4)
        with pytest.raises(InputDataError, match="not finite"):
            KernelRegression(X, outcomes(points(4)), PolynomialKernel(8), 1.0)


class TestOutcomesFarFromThePriorMean:
    @pytest.mark.parametrize("offset", [1e4, 1e6, 1e8, 1e10, 1e12])
    @pytest.mark.parametrize("noise_std", [1e-4, 1e-2, 1.0])
    def test_lower_stays_below_upper_where_the_norm_is_estimated(self, offset, noise_std):
        X = points(15)
        model = SingleTaskGP(X, outcomes(X) + offset, outcome_transform=None)
        acqf = MartingaleMixtureUCB(model, noise_std=noise_std)
        lower, upper = acqf.bounds(torch.cat([X, points(30, seed=6)]))
        assert bool((lower <= upper).all())
