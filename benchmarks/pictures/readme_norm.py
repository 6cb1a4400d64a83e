r"""The norm of the function of the README's example.

The least RKHS norm, under the example's kernel, of a function that takes the example's
values at more and more points of the unit square. It rises to the norm of the function
itself, and stays finite because the function is smooth.

    python -m benchmarks.pictures.readme_norm
"""

import torch

from benchmarks.runner import fixed_kernel, sobol_points

NUM_POINTS = (150, 300, 600, 1200, 2400)
# A ridge lowers the norm; without one, round-off would raise it.
RIDGE = 1e-9


def norms() -> dict[int, float]:
    r"""The least norm of a function through so many points."""
    kernel, found = fixed_kernel("matern52", 0.5), {}
    for count in NUM_POINTS:
        X = sobol_points(count, 2, seed=0)
        values = torch.sin(6 * X).sum(-1)
        gram = kernel(X).to_dense()
        gram.diagonal().add_(RIDGE)
        found[count] = float((values @ torch.linalg.solve(gram, values)).sqrt())
    return found


def main() -> None:
    for count, norm in norms().items():
        print(f"{count:5d} points: norm at least {norm:.2f}")


if __name__ == "__main__":
    main()
