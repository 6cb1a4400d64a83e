r"""Priors estimated from earlier tasks: Wang, Kim & Kaelbling (2018), Regret bounds for
meta Bayesian optimization with an unknown Gaussian process prior.

Section 4: unbiased mean and covariance of the tasks (``TaskMoments``) and the posterior
under the estimated prior (``MetaModel``, Eqs. 3, 4, 7 and 8), whatever its functions are.
The prior on candidates (Section 4.1) is in ``meta_candidates.py``, the prior in basis
functions (Section 4.2) in ``meta_features.py``.
"""

import math
from collections.abc import Sequence
from copy import copy
from typing import Any, ClassVar, NamedTuple, Self

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions import BotorchTensorDimensionError, InputDataError
from botorch.models import SingleTaskGP
from botorch.models.model import Model
from botorch.posteriors import GPyTorchPosterior, Posterior
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from linear_operator import to_linear_operator
from torch import Tensor
from torch.nn import Module

from kernelucb._numerics.checks import as_double, finite, joint_inputs, unbatched
from kernelucb._numerics.checks import probability as checked_probability
from kernelucb._numerics.estimates import (
    Estimate,
    Number,
    is_estimate,
    plain,
    remember_trained,
)

Tasks = Sequence[tuple[Tensor, Tensor]]  # inputs and values, of one task or of several

# A conditional variance below this share of the prior variance is round-off.
_RESOLUTION = 1e-12
# Largest share of a vector that round-off leaves outside a span that contains it, with room
# for directions that were dropped as unresolved.
_OUTSIDE = 1e-9


class TaskMoments(NamedTuple):
    r"""Unbiased mean and covariance of ``N`` task vectors of length ``M``.

    Source: Wang, Kim & Kaelbling (2018), Section 4: ``mu = Y^T 1 / N`` and
    ``k = (Y - 1 mu^T)^T (Y - 1 mu^T) / (N - 1)``.
    """

    mean: Tensor  # `M` values
    # `r x M` matrix with `covariance = root^T root` and orthogonal rows; `r` is the rank
    root: Tensor
    leverages: Tensor  # `N` diagonal entries of the hat matrix of the centred tasks

    @classmethod
    def of(cls, values: Tensor) -> "TaskMoments":
        r"""Moments of ``N x M`` complete values."""
        count = len(values)
        if count < 2:
            raise InputDataError(
                f"A covariance needs at least 2 training tasks, got {count}."
            )
        mean = values.mean(0)
        left, singular, right = torch.linalg.svd(values - mean, full_matrices=False)
        # Relative to the values, not to the deviations: the mean is rounded at their size.
        size = float(torch.linalg.matrix_norm(values, 2))
        cutoff = max(values.shape) * torch.finfo(values.dtype).eps * size
        rank = int((singular > cutoff).sum())
        root = singular[:rank, None] * right[:rank] / math.sqrt(count - 1)
        return cls(mean, root, left[:, :rank].square().sum(-1))

    def norms(self, values: Tensor) -> Tensor:
        r"""Norm of each vector's deviation from the mean, in the space of the covariance.

        ``sqrt((y - mu)^T k^+ (y - mu))`` for each of ``n x M`` values: the RKHS norm under
        the estimated kernel, infinite outside the range of the covariance.
        """
        deviations = values - self.mean
        squared_lengths = self.root.square().sum(-1)
        products = deviations @ self.root.mT
        coordinates = products / squared_lengths
        # Rows of the root are orthogonal, so coordinates need no linear system.
        outside = (deviations - coordinates @ self.root).norm(dim=-1)
        norms = (products * coordinates / squared_lengths).sum(-1).sqrt()
        return torch.where(outside > _OUTSIDE * deviations.norm(dim=-1), torch.inf, norms)

    def leave_one_out_norms(self) -> Tensor:
        r"""Norm of each training task under the prior estimated from the others.

        With ``a = N / (N - 1)`` and leverage ``q``, removing a task gives the squared norm
        ``(N - 2) a^2 q / (1 - a q)`` (Sherman-Morrison). Infinite where no other task
        reaches a direction of this one.
        """
        count = len(self.leverages)
        ratio = count / (count - 1)
        rest = 1.0 - ratio * self.leverages
        squared = (count - 2) * ratio**2 * self.leverages / rest
        return torch.where(rest > _OUTSIDE, squared, torch.inf).sqrt()


class Basis(NamedTuple):
    r"""Functions that span a prior."""

    features: Module
    combinations: Tensor | None  # `K x K'` weights; None for the features themselves


class Weighted(Module):
    r"""``psi(x) = features(x) @ weights``; rows of weights where features are numbers."""

    features: Module
    weights: Tensor

    def __init__(self, features: Module, weights: Tensor) -> None:
        super().__init__()
        self.features = features
        self.register_buffer("weights", weights)

    def psi(self, X: Tensor) -> Tensor:
        r"""``... x k`` values at ``... x d`` inputs."""
        found = self.features(X)
        # Candidates have numbers of rows as features: a look-up instead of a product with
        # one-hot vectors.
        is_row = found.dtype == torch.long
        return self.weights[found] if is_row else found @ self.weights


class FeatureMean(Weighted, Mean):
    r"""Mean ``psi(x)``, of one column."""

    def forward(self, x: Tensor) -> Tensor:
        r"""``... x n`` means of ``... x n x d`` inputs."""
        return self.psi(x).squeeze(-1)


class FeatureKernel(Weighted, Kernel):
    r"""``k(x, x') = psi(x)^T psi(x')``."""

    def forward(
        self, x1: Tensor, x2: Tensor, diag: bool = False, *_: object, **params: object
    ) -> Tensor:
        r"""``... x n x m`` covariances, or their diagonal."""
        left, right = self.psi(x1), self.psi(x2)
        return (left * right).sum(-1) if diag else left @ right.mT


class Evidence(NamedTuple):
    r"""Evaluations of a function with prior covariance ``psi(x)^T psi(x')``.

    Only distinct inputs, and only those whose outcome the earlier ones leave open.
    """

    inputs: Tensor  # `t x d`
    sums: Tensor  # `t` sums of the outcomes at each input
    counts: Tensor  # `t` numbers of outcomes there
    basis: Tensor  # `r x t` orthonormal columns that span the features of the inputs

    @property
    def outcomes(self) -> Tensor:
        r"""``t`` mean outcomes."""
        return self.sums / self.counts

    def split(self, features: Tensor) -> tuple[Tensor, Tensor]:
        r"""Coordinates of ``... x q x r`` features in the basis, and the rest of them.

        The rest is exactly zero where it is round-off.
        """
        coordinates = features @ self.basis
        rest = features - coordinates @ self.basis.mT
        correction = rest @ self.basis  # again: the first projection leaves round-off
        rest = rest - correction @ self.basis.mT
        prior_variance = features.square().sum(-1, keepdim=True)
        round_off = rest.square().sum(-1, keepdim=True) <= _RESOLUTION * prior_variance
        return coordinates + correction, rest.masked_fill(round_off, 0.0)

    def with_outcome(self, x: Tensor, y: Tensor, features: Tensor) -> "Evidence":
        r"""The evidence after an outcome at a ``1 x d`` input."""
        same = (self.inputs == x).all(-1)
        if bool(same.any()):
            return self._replace(sums=self.sums + same * y, counts=self.counts + same)
        _, rest = self.split(features)
        if not bool(rest.any()):
            return self
        return Evidence(
            inputs=torch.cat([self.inputs, x]),
            sums=torch.cat([self.sums, y]),
            counts=torch.cat([self.counts, torch.ones_like(y)]),
            basis=torch.cat([self.basis, rest.mT / rest.norm()], dim=-1),
        )


class MetaPosterior(GPyTorchPosterior):
    r"""A posterior whose variance may be exactly zero, as at inputs already evaluated."""

    @property
    def variance(self) -> Tensor:
        r"""``b x q x 1`` variances."""
        # GPyTorch's own property raises them to 1e-10, with a warning.
        covariance = self.distribution.lazy_covariance_matrix
        return covariance.diagonal(dim1=-2, dim2=-1).unsqueeze(-1)


class MetaModel(Model):
    r"""Posterior under a prior that was estimated from ``N`` earlier tasks.

    ``mu_t = mu + k(., I) k(I, I)^-1 (y - mu(I))`` and
    ``k_t = (N - 1) / (N - t - 1) (k - k(., I) k(I, I)^-1 k(I, .))``, with ``mu`` and ``k``
    as estimated. There is no noise term: the noise of the tasks is part of ``k``.

    Source: Wang, Kim & Kaelbling (2018), Eqs. 3, 4, 7 and 8. For inputs that were chosen
    without the training tasks, both are unbiased over those (Lemmas 1 and 3); ``k_t`` then
    includes the noise. Evaluations are conditioned on in the order in which they came.
    Outcomes at a repeated input are averaged and count as one evaluation. An evaluation
    that the earlier ones determine under the prior changes nothing and does not count, so
    ``t`` is the rank of ``k(I, I)``. Nothing is factorised again for one more.

    Attributes:
        mean_module: The estimated mean, as a GPyTorch mean.
        covar_module: The estimated kernel, as a GPyTorch kernel.
        num_tasks: Number of training tasks ``N``.
        rank: Rank of the estimated covariance; at most ``N - 1``.
        prior_std: Estimated prior standard deviation (root mean square over the tasks'
            inputs).
    """

    num_outputs = 1  # pyright: ignore
    batch_shape = torch.Size()  # pyright: ignore
    mean_module: FeatureMean
    covar_module: FeatureKernel
    # "values" where missing training values were completed, "features" where the basis
    # functions were trained on the same tasks
    estimated: frozenset[str]
    finite_domain: ClassVar[bool]  # a prior on candidates, not in basis functions

    def _set_prior(
        self,
        basis: Basis,
        groups: Tasks,
        vectors: Tensor,
        train_X: Tensor | None,
        train_Y: Tensor | None,
    ) -> None:
        r"""Estimate the prior from tasks, and condition it on evaluations, if any.

        Args:
            basis: The features and their combinations.
            groups: Inputs, and ``m x n`` values of the tasks observed there, NaN where
                missing.
            vectors: ``N x K'`` coordinates of the tasks in the basis.
            train_X: ``n x d`` evaluations of the new function, or None.
            train_Y: ``n x 1`` outcomes, or None.
        """
        (features, combinations), self._moments = basis, TaskMoments.of(vectors)
        moments = self._moments
        mean, root = moments.mean.unsqueeze(-1), moments.root.mT.contiguous()
        if combinations is not None:
            mean, root = combinations @ mean, combinations @ root
        self.mean_module = FeatureMean(features, mean)
        self.covar_module = FeatureKernel(features, root)
        self.dimension = groups[0][0].shape[-1]
        self.num_tasks, self.rank = len(vectors), len(moments.root)
        outcomes = torch.cat([values.reshape(-1) for _, values in groups])
        smallest, largest = outcomes[~outcomes.isnan()].aminmax()
        self._task_range = (float(smallest), float(largest))
        total = sum(self.covar_module.psi(x).square().sum() * y.shape[1] for x, y in groups)
        self.prior_std = math.sqrt(float(total) / outcomes.numel())
        none = vectors.new_zeros
        self._evidence = Evidence(
            none(0, self.dimension), none(0), none(0), none(self.rank, 0)
        )
        if train_X is not None and train_Y is not None:
            self._evidence = self.condition_on_observations(train_X, train_Y)._evidence

    def constructor_options(self) -> dict[str, Any]:
        r"""Arguments of ``construct_inputs`` for this prior, as plain numbers (JSON)."""
        raise NotImplementedError

    @property
    def num_evaluations(self) -> int:
        r"""Number ``t`` of evaluations that count: those not determined by earlier ones."""
        return len(self._evidence.inputs)

    @property
    def value_range(self) -> tuple[float, float]:
        r"""Smallest and largest value of the training tasks and of the evaluations."""
        values = *self._task_range, *self._evidence.outcomes.tolist()
        return min(values), max(values)

    def posterior(
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: object = False,
        posterior_transform: PosteriorTransform | None = None,
        **_: object,
    ) -> Posterior:
        r"""Joint posterior of ``... x q x d`` inputs.

        The estimated covariance includes the tasks' noise, so this is the prediction of an
        observation, whatever ``observation_noise`` says.

        Raises:
            BotorchTensorDimensionError: If ``X`` is not ``... x q x d``.
            InputDataError: If a value is not finite, or an input is no candidate of a prior
                on candidates.
        """
        joint = self.joint(X)
        return joint if posterior_transform is None else posterior_transform(joint)

    def joint(self, X: Tensor) -> MetaPosterior:
        r"""The posterior without a transform; arguments and errors as there."""
        points, seen = joint_inputs(X, self.dimension).double(), self._evidence
        features, prior_mean = self.covar_module.psi, self.mean_module.forward
        coordinates, rest = seen.split(features(points))
        # The coordinates of observed features are the Cholesky factor of their covariance.
        factor = seen.split(features(seen.inputs))[0]
        residuals = (seen.outcomes - prior_mean(seen.inputs)).unsqueeze(-1)
        errors = torch.linalg.solve_triangular(factor, residuals, upper=False)
        mean = prior_mean(points) + coordinates @ errors.squeeze(-1)
        count, t = self.num_tasks, self.num_evaluations
        covariance = rest @ rest.mT * ((count - 1) / (count - t - 1))
        operator = to_linear_operator(covariance.to(X.dtype))
        return MetaPosterior(MultivariateNormal(mean.to(X.dtype), operator))

    def condition_on_observations(self, X: Tensor, Y: Tensor, **_: object) -> Self:
        r"""The model after ``n x 1`` outcomes at ``n x d`` inputs; this one stays.

        Raises:
            BotorchTensorDimensionError: If the shapes do not fit together.
            InputDataError: If a value is not finite, or there would be more than ``N - 2``
                evaluations.
            UnsupportedError: If there are batch dimensions.
        """
        unbatched(X, Y, self.dimension)
        if Y.shape != (len(X), 1):
            raise BotorchTensorDimensionError(
                f"Y must be `n x 1` with n = {len(X)}, got shape {tuple(Y.shape)}."
            )
        finite("Y", Y)
        model = copy(self)  # shallow: the prior is shared, and evidence replaced
        with torch.no_grad():
            rows = X.detach().double().unsqueeze(1), Y.detach().double()
            for x, y in zip(*rows, strict=True):
                features = self.covar_module.psi(x)
                model._evidence = model._evidence.with_outcome(x, y, features)
                t = model.num_evaluations
                if t > self.num_tasks - 2:
                    raise InputDataError(
                        f"{self.num_tasks} training tasks estimate posteriors after at "
                        f"most {max(self.num_tasks - 2, 0)} evaluations; evaluation {t} "
                        f"needs {t + 2}."
                    )
        return model

    def to_gp(
        self, train_X: Tensor, train_Y: Tensor, noise_std: Number | Tensor
    ) -> SingleTaskGP:
        r"""A GP with this prior and a noise term, for every bound of the package.

        From ``n x d`` evaluations of the new function, at least one, their ``n x 1``
        outcomes, and the noise scale of these, one number or ``n x 1``.
        """
        noise = as_double(plain(noise_std)).to(train_Y)
        gp = SingleTaskGP(
            train_X,
            train_Y,
            train_Yvar=noise.square().expand_as(train_Y),
            covar_module=self.covar_module,
            mean_module=self.mean_module,
            outcome_transform=None,
        )
        if is_estimate(noise_std):  # read back from the model by name
            remember_trained(gp.likelihood, frozenset({"noise"}))
        return gp.requires_grad_(False).eval()

    def norm_bound(
        self, probability: float = 0.9, norms: Tensor | None = None
    ) -> float | Estimate:
        r"""A bound on ``||f - mean||`` under ``covar_module``, learnt from tasks.

        The ``ceil((n + 1) probability)``-th smallest of the norms of ``n`` tasks. With
        ``norms`` of tasks that the prior was not estimated from (``task_norms``), a new
        task's norm is at most that with at least this probability, whatever the law of the
        tasks, as long as they are exchangeable (split conformal prediction, e.g. Lei et al.
        2018, Theorem 2.1). Noise in the task
        values makes norms larger; independent, symmetric noise can at most double the
        failure probability. ``MartingaleMixtureUCB(model.to_gp(...), norm_bound=...,
        delta=...)`` then fails with probability at most ``delta + 1 - probability`` (twice
        the second part with noisy task values); its own ``assumptions`` count ``delta``.

        By default the norms are those of the training tasks, each under the prior estimated
        from the others. No theorem covers that, so the number is an estimate.

        Raises:
            ValueError: If the probability is not between 0 and 1.
            InputDataError: If there are too few tasks for it, or too many whose norm is
                infinite.
        """
        checked_probability("probability", probability)
        tasks = self._moments.leave_one_out_norms() if norms is None else norms.double()
        count = tasks.numel()
        # Less 1e-12, as 20 * 0.9 must be 18 and not the next whole number.
        position = math.ceil((count + 1) * probability - 1e-12)
        if position > count:
            needed = math.ceil(probability / (1.0 - probability) - 1e-12)
            raise InputDataError(
                f"A norm bound that holds with probability {probability:g} needs at least "
                f"{needed} tasks, got {count}."
            )
        value = float(tasks.reshape(-1).sort().values[position - 1])
        if math.isinf(value):
            raise InputDataError(
                f"{float(tasks.isinf().double().mean()):.0%} of the tasks are not in the "
                f"span of the others, so no norm bound holds with probability "
                f"{probability:g} under this prior. Use more training tasks, fewer "
                "candidates or features, or a lower probability."
            )
        return Estimate(value) if norms is None else value
