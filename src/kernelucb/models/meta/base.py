r"""What both models with an estimated prior have in common."""

from abc import ABC, abstractmethod
from copy import copy
from typing import Any, ClassVar

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions import (
    BotorchTensorDimensionError,
    InputDataError,
    UnsupportedError,
)
from botorch.models import SingleTaskGP
from botorch.models.model import Model
from botorch.posteriors import GPyTorchPosterior
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from linear_operator import to_linear_operator
from torch import Tensor

from kernelucb._numerics.arguments import checked
from kernelucb._numerics.checks import finite, tensor
from kernelucb._numerics.estimates import EstimatedNumber
from kernelucb.models.meta.evidence import Evidence, Query
from kernelucb.models.meta.moments import TaskMoments, conformal_quantile


class MetaPosterior(GPyTorchPosterior):
    r"""A posterior whose variance may be exactly zero, as it is where nothing is noisy."""

    @property
    def variance(self) -> Tensor:
        r"""``b x q x 1`` variances."""
        covariance = self.distribution.lazy_covariance_matrix
        return covariance.diagonal(dim1=-2, dim2=-1).unsqueeze(-1)


class MetaModel(Model, ABC):
    r"""Posterior under a prior that was estimated from ``N`` earlier tasks.

    ``mu_t = mu + k(., I) k(I, I)^-1 (y - mu(I))`` and
    ``k_t = (N - 1) / (N - t - 1) (k - k(., I) k(I, I)^-1 k(I, .))``, with ``mu`` and ``k``
    as estimated, no noise term (the noise of the tasks is part of ``k``) and the factor
    applied once, to the prior covariance that is left after all ``t`` evaluations.

    Source: Wang, Kim & Kaelbling (2018), Eqs. 3, 4, 7 and 8. For inputs that were chosen
    without the training tasks, both are unbiased over those (Lemmas 1 and 3); ``k_t`` then
    includes the noise. Evaluations are conditioned on in the order in which they came.
    Outcomes at a repeated input are averaged and count as one evaluation. One that the
    earlier ones determine under the prior changes nothing and does not count, so ``t``
    is the rank of ``k(I, I)``.

    Attributes:
        mean_module: The estimated mean, as a GPyTorch mean.
        covar_module: The estimated kernel, as a GPyTorch kernel.
        estimated: ``"values"`` where missing training values were completed,
            ``"features"`` where the basis functions were trained on the same tasks.
        finite_domain: Whether the prior is one on candidates, not on basis functions.
        dimension: Number of input columns ``d``.
    """

    mean_module: Mean
    covar_module: Kernel
    estimated: frozenset[str]
    finite_domain: ClassVar[bool]
    dimension: int
    _task_range: tuple[float, float]
    _moments: TaskMoments
    _evidence: Evidence

    @property
    @abstractmethod
    def prior_std(self) -> float:
        r"""Estimated prior standard deviation (root mean square over the tasks' inputs)."""

    @abstractmethod
    def _query(self, X: Tensor) -> Query:
        r"""Query points ``... x q x d`` (float64)."""

    @abstractmethod
    def _extended_basis(self, x: Tensor) -> tuple[Tensor, Tensor] | None:
        r"""Basis after an evaluation at ``x``, and the new row of the factor.

        None where the conditional variance at ``x`` is round-off.
        """

    @abstractmethod
    def constructor_options(self) -> dict[str, Any]:
        r"""Arguments of ``construct_inputs`` for this prior, as plain numbers (JSON)."""

    @property
    def num_outputs(self) -> int:
        r"""One outcome."""
        return 1

    @property
    def batch_shape(self) -> torch.Size:
        r"""No batch dimensions."""
        return torch.Size()

    @property
    def num_tasks(self) -> int:
        r"""Number of training tasks ``N``."""
        return self._moments.num_tasks

    @property
    def rank(self) -> int:
        r"""Rank of the estimated covariance; at most ``N - 1``."""
        return self._moments.rank

    @property
    def num_evaluations(self) -> int:
        r"""Number ``t`` of distinct evaluations that told something."""
        return len(self._evidence.inputs)

    @property
    def value_range(self) -> tuple[float, float]:
        r"""Smallest and largest value of the training tasks and of the evaluations."""
        outcomes = (self._evidence.sums / self._evidence.counts).tolist()
        smallest, largest = self._task_range
        return min(smallest, *outcomes, largest), max(smallest, *outcomes, largest)

    @checked
    def posterior(
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: PosteriorTransform | None = None,
        **_: Any,
    ) -> Any:
        r"""Joint posterior of ``... x q x d`` inputs.

        The estimated covariance includes the tasks' noise, so this is the prediction of an
        observation, whatever ``observation_noise`` says.

        Raises:
            BotorchTensorDimensionError: If the shape is another.
            InputDataError: If a value is not finite, or the model says nothing there.
        """
        self._check_inputs(X)
        query = self._query(X.double())
        mean = query.prior_mean + query.features @ self._evidence.weights
        count, t = self.num_tasks, self.num_evaluations
        covariance = query.covariance * ((count - 1) / (count - t - 1))
        distribution = MultivariateNormal(
            mean.to(X.dtype), to_linear_operator(covariance.to(X.dtype))
        )
        posterior = MetaPosterior(distribution)
        return posterior if posterior_transform is None else posterior_transform(posterior)

    @checked
    def condition_on_observations(self, X: Tensor, Y: Tensor, **_: Any) -> "MetaModel":
        r"""The model after more evaluations; this one stays as it is.

        Args:
            X: ``n x d`` inputs.
            Y: ``n x 1`` outcomes.

        Raises:
            BotorchTensorDimensionError: If the shapes do not fit together.
            InputDataError: If a value is not finite, or there would be more than ``N - 2``
                evaluations.
            UnsupportedError: If there are batch dimensions.
        """
        if X.dim() > 2 or Y.dim() > 2:
            raise UnsupportedError("Condition on `n x d` inputs, without batch dimensions.")
        self._check_inputs(X)
        if Y.shape != (len(X), 1):
            raise BotorchTensorDimensionError(
                f"Y must be `n x 1` with n = {len(X)}, got shape {tuple(Y.shape)}."
            )
        finite("Y", Y)
        model = copy(self)
        with torch.no_grad():
            for x, y in zip(X.detach().double(), Y.detach().double(), strict=True):
                model._evidence = model._with_evaluation(x, y)
        return model

    @checked
    def to_gp(
        self, train_X: Tensor, train_Y: Tensor, noise_std: float | Tensor
    ) -> SingleTaskGP:
        r"""A GP with this prior and a noise term, for every bound of the package.

        Args:
            train_X: ``n x d`` evaluations of the new function, at least one.
            train_Y: ``n x 1`` outcomes.
            noise_std: Noise scale of the outcomes, one number or ``n x 1``.
        """
        noise = torch.as_tensor(noise_std, dtype=torch.float64).to(train_Y)
        gp = SingleTaskGP(
            train_X,
            train_Y,
            train_Yvar=noise.square().expand_as(train_Y),
            covar_module=self.covar_module,
            mean_module=self.mean_module,
            outcome_transform=None,
        )
        return gp.requires_grad_(False).eval()

    @checked
    def norm_bound(self, probability: float = 0.9, norms: Tensor | None = None) -> float:
        r"""A bound on ``||f - mean||`` under ``covar_module``, learnt from tasks.

        The ``ceil((n + 1) probability)``-th smallest of the norms of ``n`` tasks. With
        ``norms`` of tasks that the prior was not estimated from, a new task's norm is at
        most that with at least this probability, whatever the law of the tasks, as long as
        they are exchangeable (conformal prediction). By default the norms are those of the
        training tasks, each under the prior estimated from the others, which needs no extra
        tasks; no theorem covers that, so it is an estimate, and a bound that takes it says
        so. Noise in the task values makes
        norms larger: noise that is independent and symmetric can at most double the failure
        probability.

        With held-out ``norms``, ``MartingaleMixtureUCB(model.to_gp(...), norm_bound=...,
        delta=...)`` fails with probability at most ``delta + 1 - probability`` (twice the
        second part with noisy task values). The bound takes the number as given: its own
        ``assumptions`` count ``delta`` only.

        Args:
            probability: Share of new tasks that the bound must hold for.
            norms: Norms of held-out tasks, see ``task_norms``.

        Raises:
            ValueError: If the probability is not between 0 and 1.
            InputDataError: If there are too few tasks for it, or too many whose norm is
                infinite.
        """
        if not 0.0 < probability < 1.0:
            raise ValueError(
                f"probability must lie strictly between 0 and 1, got {probability}."
            )
        if norms is None:
            norms = self._moments.leave_one_out_norms()
            return EstimatedNumber(conformal_quantile(norms.double(), probability))
        return conformal_quantile(norms.double().reshape(-1), probability)

    def _with_evaluation(self, x: Tensor, y: Tensor) -> Evidence:
        evidence = self._evidence
        repeated = (evidence.inputs == x).all(-1).nonzero()
        if len(repeated):
            return evidence.with_outcome(int(repeated[0]), y)
        extended = self._extended_basis(x)
        if extended is None:
            return evidence
        t = self.num_evaluations
        if t + 1 > self.num_tasks - 2:
            raise InputDataError(
                f"{self.num_tasks} training tasks estimate posteriors after at most "
                f"{max(self.num_tasks - 2, 0)} evaluations; evaluation {t + 1} needs "
                f"{t + 3}."
            )
        basis, row = extended
        factor = torch.nn.functional.pad(evidence.factor, (0, 1, 0, 1))
        factor[-1] = row
        mean = self._query(x.unsqueeze(0)).prior_mean
        return Evidence(
            inputs=torch.cat([evidence.inputs, x.unsqueeze(0)]),
            sums=torch.cat([evidence.sums, y]),
            counts=torch.cat([evidence.counts, torch.ones_like(y)]),
            prior_means=torch.cat([evidence.prior_means, mean]),
            factor=factor,
            basis=basis,
        )

    def _check_inputs(self, X: Tensor) -> None:
        if tensor("X", X).dim() < 2 or X.shape[-1] != self.dimension:
            raise BotorchTensorDimensionError(
                f"X must be `... x q x {self.dimension}`, got shape {tuple(X.shape)}."
            )
        finite("X", X)


def numbers(values: Any) -> Tensor:
    r"""Float64 tensor from plain numbers or a tensor."""
    return torch.as_tensor(values, dtype=torch.float64)


def check_tasks(task_values: Tensor, columns: int) -> Tensor:
    r"""``N x M`` task values as float64.

    Raises:
        BotorchTensorDimensionError: If the shape is another.
        InputDataError: If a value is infinite.
    """
    if task_values.dim() != 2 or task_values.shape[1] != columns:
        raise BotorchTensorDimensionError(
            f"task_values must be `N x {columns}`, one row for each training task, got "
            f"shape {tuple(task_values.shape)}."
        )
    values = task_values.detach().double()
    if bool(values.isinf().any()):
        raise InputDataError("task_values contains infinite values; remove those tasks.")
    return values
