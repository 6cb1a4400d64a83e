r"""A few seconds of everything: run by the Python of an environment to be tried.

``python .ci/smoke.py`` reads the installed package, not the checkout, and needs no test
tools. Exits with a traceback where something that the dependencies provide has changed.
"""

import sys
import warnings
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import torch
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize
from botorch.optim import optimize_acqf
from gpytorch.kernels import MaternKernel

import kernelucb

PACKAGES = ("torch", "gpytorch", "botorch", "numpy", "scipy", "cvxpy", "cvxpylayers")
BOX = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)


def make_model() -> SingleTaskGP:
    r"""Twelve observations of a smooth function of two inputs."""
    torch.manual_seed(0)
    X = torch.rand(12, 2, dtype=torch.float64)
    Y = torch.sin(6 * X).sum(-1, keepdim=True) + 0.1 * torch.randn(12, 1).double()
    kernel = MaternKernel(nu=2.5).double().requires_grad_(False)
    return SingleTaskGP(
        X,
        Y,
        covar_module=kernel,
        input_transform=Normalize(2, bounds=BOX),
        outcome_transform=None,
    )


def check_bounds(model: SingleTaskGP) -> None:
    r"""Every form of the bound, and that the dual is the cone program."""
    points = torch.rand(20, 2, dtype=torch.float64)
    given = {"norm_bound": 10.0, "noise_std": 0.1, "fit": "martingale"}
    upper = {}
    for form in ("dual", "analytic", "convex"):
        acqf = kernelucb.MartingaleMixtureUCB(model, form=form, **given)
        lower, upper[form] = acqf.bounds(points)
        assert bool((lower < upper[form]).all()), form
    assert float((upper["dual"] - upper["convex"]).abs().max()) < 1e-4
    assert bool((upper["dual"] <= upper["analytic"] + 1e-9).all())


def check_search(model: SingleTaskGP) -> None:
    r"""BoTorch's optimiser, a certificate and the other rules of a search."""
    band = kernelucb.MartingaleMixtureUCB(model, norm_bound=10.0, noise_std=0.1)
    candidate, _ = optimize_acqf(band, BOX, q=1, num_restarts=2, raw_samples=32)
    assert candidate.shape == (1, 2)
    candidates = torch.rand(50, 2, dtype=torch.float64)
    assert kernelucb.regret_certificate(band, candidates=candidates).gap > 0.0
    assert kernelucb.regret_certificate(band, bounds=BOX, max_evaluations=500).gap > 0.0
    bandit = kernelucb.KernelBandit(
        MaternKernel(nu=2.5).double(), norm_bound=10.0, noise_std=0.1
    )
    arm = bandit.select(candidates)
    bandit.observe(candidates[arm], 1.0)


def check_ax() -> str:
    r"""Three trials of an Ax experiment, where Ax is installed."""
    if find_spec("ax") is None:
        return "not installed"
    from ax.api.client import Client
    from ax.api.configs import RangeParameterConfig

    from kernelucb.ax import generation_strategy

    client = Client(random_seed=0)
    client.configure_experiment(
        parameters=[RangeParameterConfig("x", bounds=(0.0, 1.0), parameter_type="float")]
    )
    client.configure_optimization("-loss")
    client.set_generation_strategy(
        generation_strategy(
            kernelucb.MartingaleMixtureUCB,
            options={"kernel": "rbf", "lengthscale": 0.5, "norm_bound": 5.0},
            num_initial=2,
        )
    )
    for _ in range(3):
        for index, parameters in client.get_next_trials(max_trials=1).items():
            loss = (float(parameters["x"]) - 0.3) ** 2
            client.complete_trial(index, raw_data={"loss": (loss, 0.01)})
    return version("ax-platform")


def main() -> None:
    r"""All checks, and what they ran with."""
    checkout = Path(__file__).resolve().parents[1]
    assert checkout not in Path(kernelucb.__file__).resolve().parents, "the checkout's own"
    for name in kernelucb.__all__:
        getattr(kernelucb, name)
    model = make_model()
    check_bounds(model)
    check_search(model)
    found = [f"{name} {version(name)}" for name in PACKAGES]
    print(f"smoke test passed: Python {sys.version.split()[0]}, {', '.join(found)}")
    print(f"Ax: {check_ax()}")


if __name__ == "__main__":
    warnings.simplefilter("default")
    main()
