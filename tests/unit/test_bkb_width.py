r"""The certified width at any inducing points: formula, the inequalities of its proof."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernelucb.confidence.bkb import Budget, certified_width, theorem2_width
from kernelucb.confidence.ridge_band import abbasi_yadkori_width
from kernelucb.models import BKBModel
from oracles import bkb_width
from problems import frozen_kernel, generator, normal, uniform
from tolerances import ORDER, REARRANGED, SKETCH

NAMES = ["rbf", "matern32", "matern52"]
SIZES = st.floats(1e-3, 1e3)


def state_of(kernel, lam=0.04, qbar=1e9, n=30, seed=0):
    X = uniform(n, 2, seed)
    X = torch.cat([X, X[: n // 3], X[:2]])  # some inputs two or three times
    Y = normal(len(X), seed).unsqueeze(-1)
    return BKBModel(X, Y, frozen_kernel(kernel), lam, qbar).state


def with_inducing(state, index):
    return state.restored(state.inputs, state.tally, index, state.generator_state)


def gram_of(state, kernel):
    return frozen_kernel(kernel)(state.inputs).to_dense()


class TestFormula:
    @pytest.mark.parametrize("kernel", NAMES)
    @pytest.mark.parametrize("lam", [0.01, 1.0])
    @pytest.mark.parametrize("qbar", [1e-3, 0.1, 0.5, 2.0, 1e9])
    def test_against_dense_matrices_in_feature_space(self, kernel, lam, qbar):
        state = state_of(kernel, lam, qbar)
        budget = Budget.of(state)
        log_det, residual = bkb_width.terms(
            gram_of(state, kernel), state.counts, state.inducing, lam
        )
        assert budget.log_det == pytest.approx(log_det, rel=SKETCH)
        assert budget.residual == pytest.approx(residual, rel=SKETCH, abs=SKETCH)
        gain = log_det + 2.0 * math.log(1.0 / 0.07)
        expected = bkb_width.width(gain, residual, lam, 3.0, 0.2)
        assert certified_width(budget, 3.0, 0.2, 0.07) == pytest.approx(
            expected, rel=SKETCH
        )

    @pytest.mark.parametrize("block", [2, 7, 16, 30, 64])
    @pytest.mark.parametrize("kernel", NAMES)
    def test_residuals_in_blocks(self, kernel, block):
        r"""Between the largest eigenvalue of what is left and its trace; equal in one."""
        state = state_of(kernel, qbar=0.1)
        gram = gram_of(state, kernel)
        terms = gram, state.counts, state.inducing, 0.04
        exact = bkb_width.largest_residual(*terms)
        singly, blocks = Budget.of(state), Budget.of(state, block)
        assert exact * (1.0 - SKETCH) <= blocks.residual < singly.residual
        if block >= 30:
            assert blocks.residual == pytest.approx(exact, rel=SKETCH)
        assert blocks._replace(residual=singly.residual) == singly

    @given(SIZES, SIZES, st.floats(0.0, 1e4))
    def test_the_worst_share(self, noise, norm, residual):
        r"""The closed form against a search over the share outside the span."""
        budget = Budget(1, 1.0, 1.0, 1.0, noise**2, residual)
        own = certified_width(budget, norm, 1.0, 1.0)
        expected = bkb_width.width(noise**2, residual, 1.0, norm, 1.0)
        assert own == pytest.approx(expected, rel=SKETCH)
        assert own <= (noise + norm * math.sqrt(1.0 + residual)) * (1.0 + REARRANGED)
        assert own >= (noise + norm) * (1.0 - REARRANGED)

    @pytest.mark.parametrize("kernel", NAMES)
    def test_all_points_inducing_is_abbasi_yadkori(self, kernel):
        state = state_of(kernel)
        gram = state.counts.sqrt().outer(state.counts.sqrt()) * gram_of(state, kernel)
        log_det = float(torch.linalg.eigvalsh(gram).div(0.04).log1p().sum())
        exact = abbasi_yadkori_width(log_det, 2.0, 0.1, 0.04 / 0.3**2)
        width = certified_width(Budget.of(state), 2.0, 0.3, 0.1)
        assert width == pytest.approx(exact, rel=SKETCH)

    @pytest.mark.parametrize("kernel", NAMES)
    @given(st.floats(1e-4, 10.0), st.floats(1e-6, 0.9), st.floats(0.05, 0.95))
    def test_below_theorem_2_where_variances_are_exact(self, kernel, lam, delta, epsilon):
        budget = Budget.of(state_of(kernel, lam, n=12))
        theorem2 = theorem2_width(budget, 2.0, 0.3, delta, epsilon)
        assert certified_width(budget, 2.0, 0.3, delta) < theorem2


@pytest.mark.parametrize("kernel", NAMES)
class TestProof:
    r"""Any inducing points: the inequalities between the data and the certificate."""

    @given(st.integers(0, 10**6), st.integers(1, 20), st.floats(1e-2, 10.0))
    def test_the_determinant_covers_the_kernel(self, kernel, seed, size, lam):
        state = state_of(kernel, lam, n=20)
        index = torch.randperm(20, generator=generator(seed))[:size].sort().values
        gram = state.counts.sqrt().outer(state.counts.sqrt()) * gram_of(state, kernel)
        exact = float(torch.linalg.eigvalsh(gram).clamp_min(0.0).div(lam).log1p().sum())
        bound = Budget.of(with_inducing(state, index)).log_det
        assert bound >= exact * (1.0 - ORDER)

    @given(
        st.integers(0, 10**6),
        st.integers(1, 20),
        st.floats(1e-2, 10.0),
        st.floats(0.0, 3.0),
        st.booleans(),
        st.sampled_from([1, 6, 64]),
    )
    def test_no_function_and_no_noise_is_further(
        self, kernel, seed, size, lam, level, worst, block
    ):
        r"""Estimate minus function, over the deviation, below the width for this noise.

        ``noise^T K (K + lam)^-1 noise`` stands for what bounds it with probability
        ``1 - delta``. The functions are random, or as far from the estimate as any can
        be at the worst input.
        """
        X, Q = uniform(20, 2, 0), uniform(15, 2, 7)
        every = torch.cat([X, Q])
        K = frozen_kernel(kernel)(every).to_dense()
        values, vectors = torch.linalg.eigh(K)
        features = vectors * values.clamp_min(0.0).sqrt()
        observed, random = features[:20], generator(seed)
        index = torch.randperm(20, generator=random)[:size].sort().values
        noise = level * torch.randn(20, generator=random, dtype=torch.float64)
        state = with_inducing(state_of_inputs(X, kernel, lam), index)
        # The estimate is linear in the outcomes: its weights from the state's own sketch.
        project, sketch = state.basis.project, state.sketch
        z, left = project(every)
        weights = torch.cholesky_solve(z.mT, sketch.factor).mT @ state.features.mT
        deviation = sketch.variance(z, left).sqrt()
        bias = weights @ observed - features
        theta = torch.randn(len(every), generator=random, dtype=torch.float64)
        if worst:
            far = int((bias.norm(dim=-1) / deviation).argmax())
            theta = bias[far] * torch.sign(weights[far] @ noise + 1e-300)
        theta = 2.0 * theta / theta.norm()
        error = (bias @ theta + weights @ noise).abs()
        gram = observed @ observed.mT
        energy = noise @ gram @ torch.linalg.solve(gram + lam * torch.eye(20), noise)
        budget = Budget.of(state, block)._replace(log_det=float(energy))
        width = certified_width(budget, 2.0, 1.0, 1.0)
        assert bool((error <= width * deviation * (1.0 + SKETCH)).all())


def state_of_inputs(X, kernel, lam):
    return BKBModel(X, X[:, :1], frozen_kernel(kernel), lam, 1e9).state
