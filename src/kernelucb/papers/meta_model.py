r"""Priors estimated from earlier tasks (Wang, Kim & Kaelbling 2018)."""

import math
from collections.abc import Iterator, Sequence
from copy import copy
from itertools import count, islice
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions import BotorchTensorDimensionError, InputDataError, UnsupportedError
from botorch.models import SingleTaskGP
from botorch.models.model import Model
from botorch.posteriors import GPyTorchPosterior
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from linear_operator import to_linear_operator
from torch import Tensor
from torch.nn import Module, Parameter

from kernelucb._numerics.checks import as_double, finite, joint_inputs, unbatched
from kernelucb._numerics.checks import probability as checked_probability
from kernelucb._numerics.domains import checked_points
from kernelucb._numerics.estimates import (
    Estimate,
    Number,
    frozen_copy,
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
# An input is a candidate if it agrees with it to this share of each column's range: wide
# enough for a single-precision copy.
_SAME = 1e-6

# Completion of a matrix of task values.
_SWEEPS = 100  # most sweeps for one rank, started from the rank below
_TOLERANCE = 1e-5  # change in a sweep, as a share of the deviations, that ends them
_WORTH = 1e-3  # share of the error of the column means that a higher rank must take away
_PATIENCE = 3  # ranks without improvement before the search ends
_HELD_OUT = 0.1  # share of the observed values that judge a rank
_HOPELESS = 0.95  # error ratio above which completion is refused: a tenth of the variance

# Training of cosine features, on inputs scaled to a range of 1.
_SCALES = (1.0, 2.0, 4.0, 8.0, 16.0)  # first guesses of the frequencies' size
_UNSEEN = 0.2  # share of the inputs on which a step's heads are judged
_STEPS = 150  # of Adam
_RATE = 0.02  # of Adam; phases are in radians
_RIDGE = 1e-6  # of the mean squared feature: keeps a head solvable, and no more
# Combinations of basis functions this much smaller than the largest, on all training
# inputs together, cannot be told from zero by a least-squares fit in double precision.
_INDEPENDENT = 1e-7
# Combinations of a trained network are cut off where the ridge of its training did.
_TRAINED = _RIDGE**0.5


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
        self, x1: Tensor, x2: Tensor, diag: bool = False, *_: Any, **params: Any
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

    def _set_prior(self, basis: Any, groups: Any, vectors: Tensor, *data: Any) -> None:
        r"""Estimate the prior from tasks, and condition it on evaluations, if any.

        Args:
            basis: Module of features, and the ``K x K'`` weights of their combinations, or
                None for the features themselves.
            groups: Inputs, and ``m x n`` values of the tasks observed there, NaN where
                missing.
            vectors: ``N x K'`` coordinates of the tasks in the basis.
            data: ``n x d`` evaluations of the new function and ``n x 1`` outcomes, or None.
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
        if all(part is not None for part in data):
            self._evidence = self.condition_on_observations(*data)._evidence

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
        observation_noise: bool | Tensor = False,
        posterior_transform: PosteriorTransform | None = None,
        **_: Any,
    ) -> Any:
        r"""Joint posterior of ``... x q x d`` inputs.

        The estimated covariance includes the tasks' noise, so this is the prediction of an
        observation, whatever ``observation_noise`` says.

        Raises:
            BotorchTensorDimensionError: If ``X`` is not ``... x q x d``.
            InputDataError: If a value is not finite, or an input is no candidate of a prior
                on candidates.
        """
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
        distribution = MultivariateNormal(
            mean.to(X.dtype), to_linear_operator(covariance.to(X.dtype))
        )
        posterior = MetaPosterior(distribution)
        return posterior if posterior_transform is None else posterior_transform(posterior)

    def condition_on_observations(self, X: Tensor, Y: Tensor, **_: Any) -> Self:
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


class Lookup(Module):
    r"""Row numbers of inputs that are rows of ``M x d`` candidates."""

    candidates: Tensor

    def __init__(self, candidates: Tensor) -> None:
        super().__init__()
        self.register_buffer("candidates", candidates)

    def forward(self, X: Tensor) -> Tensor:
        r"""``...`` positions of ``... x d`` inputs among the candidates."""
        scale = self.candidates.amax(0) - self.candidates.amin(0)
        scale = torch.where(scale > 0, scale, 1.0)  # of a column in which all agree
        rows = X.detach().to(self.candidates).reshape(-1, X.shape[-1])
        distances = torch.cdist(rows / scale, self.candidates / scale, p=torch.inf)
        nearest, index = distances.min(-1)
        if bool((nearest > _SAME).any()):
            row = rows[int(nearest.argmax())].tolist()
            raise InputDataError(
                f"The input {row} is not one of the model's candidates, and the prior is "
                "known at these alone. Use optimize_acqf_discrete, or FeatureMetaModel for "
                "a continuous domain."
            )
        return index.reshape(X.shape[:-1])


class DiscreteMetaModel(MetaModel):
    r"""Prior on ``M`` candidates, estimated from ``N`` tasks that were observed on them.

    Source: Wang, Kim & Kaelbling (2018), Section 4.1. Nothing is assumed about how the
    candidates relate to each other; ``candidates`` only names them.

    Missing task values (NaN) are completed first, see ``complete_matrix``. Completed
    values carry no noise of their own, so the covariance comes out a little too small.

    Example:
        >>> model = DiscreteMetaModel(task_values, candidates)
        >>> acqf = MetaUCB(model, delta=0.05)
        >>> x, _ = optimize_acqf_discrete(acqf, q=1, choices=candidates)
        >>> model = model.condition_on_observations(x, y)

    Attributes:
        candidates: ``M x d`` inputs.
        completion: How missing values were filled in, see ``Completion``.
    """

    finite_domain = True

    def __init__(
        self,
        task_values: Tensor,
        candidates: Tensor,
        *,
        train_X: Tensor | None = None,
        train_Y: Tensor | None = None,
        seed: int = 0,
    ) -> None:
        r"""Estimate the prior.

        Args:
            task_values: ``N x M`` values of the training tasks, NaN where missing.
            candidates: ``M x d`` distinct inputs.
            train_X: ``n x d`` evaluations of the new function so far, if any.
            train_Y: ``n x 1`` outcomes.
            seed: For the completion of missing values.

        Raises:
            BotorchTensorDimensionError: If the shapes do not fit together.
            InputDataError: If there are fewer than two tasks, candidates repeat, or too
                many values are missing.
        """
        super().__init__()
        candidates = checked_points("candidates", candidates)
        if len(candidates.unique(dim=0)) < len(candidates):
            raise InputDataError("candidates has equal rows; each input must appear once.")
        self.candidates = candidates
        self._task_values, self._seed = self._checked_values(task_values), seed
        self.completion = complete_matrix(self._task_values, seed)
        self.estimated = frozenset({"values"} if self.completion.share_missing else ())
        groups, vectors = [(candidates, self._task_values.mT)], self.completion.values
        self._set_prior((Lookup(candidates), None), groups, vectors, train_X, train_Y)

    @classmethod
    def from_observations(
        cls,
        task_inputs: Sequence[Tensor],
        task_values: Sequence[Tensor],
        candidates: Tensor,
        seed: int = 0,
    ) -> "DiscreteMetaModel":
        r"""A model from tasks that were each observed at candidates of their own.

        Each at ``n_i x d`` rows of ``candidates``, with ``n_i`` values; values at repeated
        rows are averaged.
        """
        lookup = Lookup(candidates.detach().double())
        rows: list[Tensor] = []
        for inputs, values in zip(task_inputs, task_values, strict=True):
            index, row = lookup(inputs), lookup.candidates.new_zeros(len(candidates))
            sums = row.index_add(0, index, values.detach().double().reshape(-1))
            # Where nothing was observed this is NaN, 0 / 0: missing.
            rows.append(sums / index.bincount(minlength=len(row)))
        return cls(torch.stack(rows), candidates, seed=seed)

    @classmethod
    def construct_inputs(cls, training_data: Any, **options: Any) -> dict[str, Any]:
        r"""Arguments from BoTorch's or Ax's dataset and ``constructor_options``."""
        # Missing values are stored as None, as JSON has no NaN; NumPy reads None as NaN.
        values = np.array(options["task_values"], dtype=float)
        return {
            "task_values": as_double(values),
            "candidates": as_double(options["candidates"]),
            "train_X": training_data.X,
            "train_Y": training_data.Y,
            "seed": options["seed"],
        }

    def constructor_options(self) -> dict[str, Any]:
        r"""Task values (None where missing), candidates and seed."""
        values = [
            [None if math.isnan(value) else value for value in row]
            for row in self._task_values.tolist()
        ]
        candidates = self.candidates.tolist()
        return {"task_values": values, "candidates": candidates, "seed": self._seed}

    def task_norms(self, task_values: Tensor) -> Tensor:
        r"""Norms of ``n x M`` complete tasks under the estimated prior, ``n`` values."""
        return self._moments.norms(self._checked_values(task_values))

    def _checked_values(self, task_values: Tensor) -> Tensor:
        r"""``N x M`` task values as float64, NaN where missing."""
        count = len(self.candidates)
        if task_values.dim() != 2 or task_values.shape[1] != count:
            raise BotorchTensorDimensionError(
                f"task_values must be `N x {count}`, one row for each training task, got "
                f"shape {tuple(task_values.shape)}."
            )
        values = task_values.detach().double()
        finite("task_values", values.masked_fill(values.isnan(), 0.0))
        return values


class Completion(NamedTuple):
    r"""A completed matrix.

    Attributes:
        values: ``N x M`` values; the observed ones are as given.
        rank: Rank of the low-rank part found (around the column means); 0 where nothing
            was missing.
        share_missing: Share of the entries that were filled in.
        error_ratio: Root mean square error of held-out entries, relative to filling in
            the column means; 0 where nothing was missing.
    """

    values: Tensor
    rank: int
    share_missing: float
    error_ratio: float


def complete_matrix(values: Tensor, seed: int = 0) -> Completion:
    r"""Fill in NaN entries by column means and a matrix of low rank.

    Source: hard-impute of Mazumder, Hastie & Tibshirani (2010) with warm starts and column
    means, for the matrix completion of Candes & Recht (2009) that Wang, Kim & Kaelbling
    (2018) assume in Section 4.1. Soft-impute, its convex relative, needs a far higher rank
    for the same error. The rank is the one that predicts a tenth of the observed entries
    best. Assumes entries missing at random. Deterministic for a given ``seed``.

    Args:
        values: ``N x M`` values, NaN where missing.
        seed: Chooses the entries that are held out.
    """
    seen = ~values.isnan()
    missing = 1.0 - float(seen.double().mean())
    if missing == 0.0:
        return Completion(values, 0, 0.0, 0.0)
    for name, counts, least in (("tasks", seen.sum(1), 1), ("candidates", seen.sum(0), 2)):
        short = (counts < least).nonzero().reshape(-1).tolist()
        if short:
            raise InputDataError(
                f"The {name} {short[:8]} have fewer than {least} training value(s); "
                "drop them."
            )
    rank, ratio = _choose_rank(values, seen, seed)
    if ratio > _HOPELESS:
        raise InputDataError(
            f"{missing:.0%} of the training values are missing, which is too much to "
            f"complete: held-out values are predicted with {ratio:.2f} times the error of "
            "the column means. Drop the tasks or candidates with the fewest values."
        )
    filled = next(islice(_by_rank(values, seen), rank, None))
    return Completion(filled, rank, missing, ratio)


def _choose_rank(values: Tensor, seen: Tensor, seed: int) -> tuple[int, float]:
    r"""Rank with the least held-out error, and that error relative to rank 0."""
    generator = torch.Generator().manual_seed(seed)
    # Drawn on the CPU, so that every device holds out the same.
    held = seen & (torch.rand(seen.shape, generator=generator).to(values) < _HELD_OUT)
    held &= (seen & ~held).sum(0) > 0  # a column without values has no mean
    rest = seen & ~held
    chosen, freedom, best, baseline = 0, sum(values.shape), math.inf, math.inf
    for rank, filled in enumerate(_by_rank(values, rest)):
        error = float((filled - values)[held].norm())
        if rank == 0:
            best = baseline = error
        elif error < best - _WORTH * baseline:
            best, chosen = error, rank
        after = rank + 1
        # Up to as many free numbers as half the values; more would fit the values by heart.
        if after * (freedom - after) > 0.5 * int(rest.sum()) or after - chosen > _PATIENCE:
            break
    return chosen, best / baseline if baseline > 0.0 else 1.0


def _by_rank(values: Tensor, seen: Tensor) -> Iterator[Tensor]:
    r"""Completed values: by column means, then by fits of rank 1, 2, ..

    Each fit starts from the one of the rank below.
    """
    means = torch.where(seen, values, 0.0).sum(0) / seen.sum(0)
    filled = torch.where(seen, values, means)
    for rank in count(1):
        yield filled
        for _ in range(_SWEEPS):
            centre = filled.mean(0)
            deviations = filled - centre
            # Eigenvalues ascend: the last axes are the principal ones.
            axes = torch.linalg.eigh(deviations.mT @ deviations).eigenvectors[:, -rank:]
            updated = torch.where(seen, filled, centre + deviations @ axes @ axes.mT)
            change = float((updated - filled).norm())
            filled = updated
            if change <= _TOLERANCE * float(deviations.norm()):
                break


class CosineFeatures(Module):
    r"""``cos(x^T frequencies + phases)``, the basis functions of Wang et al. (2018).

    Args:
        frequencies: ``d x K``.
        phases: ``K``, of the same type.

    Raises:
        BotorchTensorDimensionError: If they are not ``d x K`` and ``K``.

    Attributes:
        of_the_tasks: Whether a ``FeatureMetaModel`` trained them on its own tasks.
    """

    of_the_tasks = False

    def __init__(self, frequencies: Tensor, phases: Tensor) -> None:
        super().__init__()
        if frequencies.dim() != 2 or phases.shape != frequencies.shape[1:]:
            raise BotorchTensorDimensionError(
                "frequencies must be `d x K` and phases `K`, got shapes "
                f"{tuple(frequencies.shape)} and {tuple(phases.shape)}."
            )
        self.frequencies = Parameter(frequencies)
        self.phases = Parameter(phases)

    def forward(self, X: Tensor) -> Tensor:
        r"""``... x K`` features of ``... x d`` inputs."""
        return torch.cos(X @ self.frequencies + self.phases)


def _split(groups: Tasks, generator: torch.Generator) -> tuple[Tasks, Tasks]:
    r"""Four fifths of each group's inputs, drawn at random, and the fifth held out."""
    kept, held = list[tuple[Tensor, Tensor]](), list[tuple[Tensor, Tensor]]()
    for inputs, values in groups:
        order = torch.randperm(len(inputs), generator=generator)
        cut = max(1, round(len(order) * (1.0 - _UNSEEN)))
        kept.append((inputs[order[:cut]], values[order[:cut]]))
        held.append((inputs[order[cut:]], values[order[cut:]]))
    return kept, held


def _error(features: Module, fitted: Tasks, predicted: Tasks) -> Tensor:
    r"""Mean squared error at ``predicted`` of heads fitted to ``fitted``."""
    total, count = fitted[0][1].new_zeros(()), 0
    for (inputs, values), (others, unseen) in zip(fitted, predicted, strict=True):
        design = features(inputs)
        gram = design.mT @ design
        # The gradient passes through the heads (variable projection), so the features are
        # trained for the best heads that they allow.
        ridge = _RIDGE * len(design) * torch.eye(len(gram)).to(gram)
        heads = torch.linalg.solve(gram + ridge, design.mT @ values)
        total = total + (features(others) @ heads - unseen).square().sum()
        count += unseen.numel()
    return total / max(count, 1)


def _trained(groups: Tasks, num_features: int, seed: int, progress: bool) -> CosineFeatures:
    r"""A network of one hidden layer with a linear head for each task.

    Each step fits the heads by least squares on a random four fifths of the inputs, and
    takes an Adam step on the features to reduce the error at the other fifth: with another
    part in each step, no inputs are learnt by heart. Deterministic for a given ``seed``.
    """
    generator = torch.Generator().manual_seed(seed)
    from rich.progress import track  # only where features are trained

    stacked = torch.cat([inputs for inputs, _ in groups])
    span = stacked.amax(0) - stacked.amin(0)
    span = torch.where(span > 0, span, 1.0)
    groups = [(x / span, values) for x, values in groups]
    size = (stacked.shape[-1], num_features)
    normal = torch.randn(size, generator=generator, dtype=torch.float64).to(stacked)
    turns = torch.rand(num_features, generator=generator).to(stacked)
    starts = [CosineFeatures(scale * normal, 2.0 * torch.pi * turns) for scale in _SCALES]
    first = _split(groups, generator)
    best = min(starts, key=lambda each: float(_error(each, *first).detach()))
    optimizer = torch.optim.Adam(best.parameters(), lr=_RATE)
    steps = range(_STEPS)

    for _ in track(steps, "basis functions", transient=True, disable=not progress):
        optimizer.zero_grad()
        _error(best, *_split(groups, generator)).backward()
        optimizer.step()
    frequencies = best.frequencies.detach() / span.unsqueeze(-1)
    return CosineFeatures(frequencies, best.phases.detach()).requires_grad_(False)


class FeatureMetaModel(MetaModel):
    r"""Prior ``W^T phi(x)``, with the law of ``W`` estimated from ``N`` tasks.

    Each task gives one vector of weights by least squares; their mean and covariance give
    the prior's mean and kernel.

    Source: Wang, Kim & Kaelbling (2018), Section 4.2; Lemma 3 for given basis functions
    and tasks that share their inputs. Trained basis functions and different inputs are
    beyond it. Basis functions that are linearly dependent on the training inputs are first
    combined into independent ones, which does not change the space that they span; nearly
    dependent ones of a trained network are left out as well.

    Example:
        >>> model = FeatureMetaModel(task_inputs, task_values)  # trains cosine features
        >>> acqf = MetaUCB(model.condition_on_observations(X, Y))
        >>> bound = MartingaleMixtureUCB(
        ...     model.to_gp(X, Y, noise_std=0.1), norm_bound=model.norm_bound(0.9)
        ... )

    Attributes:
        features: The basis functions, frozen.
        num_features: Number of independent ones.
    """

    finite_domain = False

    def __init__(
        self,
        task_inputs: Tensor | Sequence[Tensor],
        task_values: Tensor | Sequence[Tensor],
        features: Module | None = None,
        *,
        num_features: int = 100,
        seed: int = 0,
        progress: bool = True,
        train_X: Tensor | None = None,
        train_Y: Tensor | None = None,
    ) -> None:
        r"""Train the basis functions where none are given, and estimate the prior.

        Args:
            task_inputs: ``M x d`` inputs that all tasks share, or ``M_i x d`` for each.
            task_values: ``N x M`` values, or ``M_i`` for each task.
            features: Maps ``... x d`` inputs to ``... x K`` values; every task needs at
                least ``K`` inputs. By default cosine features are trained on the tasks.
            num_features: How many cosine features; at most half the number of inputs of
                the smallest task are used.
            seed: Seed of the training.
            progress: Show a progress bar while training.
            train_X: ``n x d`` evaluations of the new function so far, if any.
            train_Y: ``n x 1`` outcomes.

        Raises:
            BotorchTensorDimensionError: If the shapes do not fit together.
            InputDataError: If values are not finite, there are fewer than two tasks, or a
                task has fewer inputs than there are independent basis functions.
            UnsupportedError: If ``features`` cannot be copied.
        """
        super().__init__()
        self._tasks = _listed(task_inputs, task_values)
        groups = _grouped(self._tasks)
        trained = isinstance(features, CosineFeatures) and features.of_the_tasks
        if features is None:
            most = max(min(len(inputs) for inputs, _ in groups) // 2, 1)
            features = _trained(groups, min(num_features, most), seed, progress)
            features.of_the_tasks = trained = True
        self.features = frozen_copy(features, remember=False)
        self.estimated = frozenset({"features"} if trained else ())
        cutoff = _TRAINED if trained else _INDEPENDENT
        self._combinations = self._independent_combinations(groups, cutoff)
        self.num_features = self._combinations.shape[-1]
        heads = torch.cat([self._heads(*group) for group in groups])
        basis = self.features, self._combinations
        self._set_prior(basis, groups, heads, train_X, train_Y)

    @classmethod
    def construct_inputs(cls, training_data: Any, **options: Any) -> dict[str, Any]:
        r"""Arguments from BoTorch's or Ax's dataset and ``constructor_options``."""
        features = CosineFeatures(
            as_double(options["frequencies"]), as_double(options["phases"])
        )
        features.of_the_tasks = options["of_the_tasks"]
        return {
            "task_inputs": [*map(as_double, options["task_inputs"])],
            "task_values": [*map(as_double, options["task_values"])],
            "features": features,
            "train_X": training_data.X,
            "train_Y": training_data.Y,
        }

    def constructor_options(self) -> dict[str, Any]:
        r"""The tasks and the cosine features, as lists.

        Raises:
            UnsupportedError: If the features are no ``CosineFeatures``.
        """
        features = self.features
        if not isinstance(features, CosineFeatures):
            raise UnsupportedError(
                f"{type(features).__name__} cannot be written as plain numbers; use "
                "CosineFeatures."
            )
        return {
            "task_inputs": [inputs.tolist() for inputs, _ in self._tasks],
            "task_values": [values.tolist() for _, values in self._tasks],
            "frequencies": features.frequencies.tolist(),
            "phases": features.phases.tolist(),
            "of_the_tasks": features.of_the_tasks,
        }

    def task_norms(
        self, task_inputs: Tensor | Sequence[Tensor], task_values: Tensor | Sequence[Tensor]
    ) -> Tensor:
        r"""Norms of other tasks under the estimated prior, one for each task.

        A task, given as to the constructor, has the norm of its least-squares fit by the
        basis functions.
        """
        tasks = _listed(task_inputs, task_values, self.dimension)
        heads = [self._heads(x, y.unsqueeze(-1)) for x, y in tasks]
        return self._moments.norms(torch.cat(heads))

    def _independent_combinations(self, groups: Tasks, cutoff: float) -> Tensor:
        r"""``K x K'`` weights of combinations that are orthonormal on the inputs."""
        inputs = torch.cat([inputs for inputs, _ in groups])
        values = self.features(inputs)
        if values.dim() != 2 or len(values) != len(inputs) or values.numel() == 0:
            raise BotorchTensorDimensionError(
                "features must map `n x d` inputs to `n x K` values, got shape "
                f"{tuple(values.shape)} for {tuple(inputs.shape)}."
            )
        finite("features(task_inputs)", values)
        _, singular, right = torch.linalg.svd(values, full_matrices=False)
        kept = singular > cutoff * singular.max()
        # Scaled to mean squares of one, whatever the number of inputs.
        return right[kept].mT / singular[kept] * len(inputs) ** 0.5

    def _heads(self, inputs: Tensor, values: Tensor) -> Tensor:
        r"""``n x K'`` least-squares weights of ``n`` tasks, ``m x n`` values."""
        design = self.features(inputs) @ self._combinations
        if len(design) < self.num_features:
            raise InputDataError(
                f"A task has {len(design)} inputs for {self.num_features} independent "
                "basis functions; it needs at least as many. Use fewer basis functions."
            )
        # By singular values, as a task's few inputs may leave combinations dependent; the
        # driver of `lstsq` that takes these is for the CPU alone.
        return (torch.linalg.pinv(design) @ values).mT


def _listed(
    task_inputs: Tensor | Sequence[Tensor],
    task_values: Tensor | Sequence[Tensor],
    dimension: int | None = None,
) -> Tasks:
    r"""Inputs and values of each task, float64; ``dimension`` is ``d`` where known."""
    values = [each.detach().double().reshape(-1) for each in task_values]
    if isinstance(task_inputs, Tensor) and task_inputs.dim() == 2:  # shared by all
        inputs = [task_inputs.detach().double()] * len(values)
    else:
        inputs = [each.detach().double() for each in task_inputs]
    d = dimension or (inputs[0].shape[-1] if inputs and inputs[0].dim() else 0)
    if d == 0 or [each.shape for each in inputs] != [(len(each), d) for each in values]:
        size = dimension or "d"
        raise BotorchTensorDimensionError(
            f"task_inputs must be `M x {size}` inputs that all tasks share, or `M_i x "
            f"{size}` inputs for each task, and task_values as many values for each."
        )
    for each in {id(each): each for each in inputs}.values():  # shared inputs once
        finite("task_inputs", each)
    finite("task_values", torch.cat(values))
    return list(zip(inputs, values, strict=True))


def _grouped(tasks: Tasks) -> Tasks:
    r"""Tasks with equal inputs together: ``m x d`` inputs, ``m x n`` values of ``n``."""
    groups: dict[bytes, tuple[Tensor, list[Tensor]]] = {}
    for inputs, values in tasks:
        key = inputs.cpu().numpy().tobytes()  # tensors are hashed by identity
        groups.setdefault(key, (inputs, []))[1].append(values)
    return [(inputs, torch.stack(values, -1)) for inputs, values in groups.values()]
