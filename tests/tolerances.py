r"""Every tolerance of the test suite, each with where it comes from.

``EPS`` is the spacing of float64 at one, 2.2e-16. The test problems have outcomes of
order one, at most 60 observations and condition numbers of the whitened ``I + K`` of at
most 1e6 unless a comment says otherwise.
"""

import torch

EPS = torch.finfo(torch.float64).eps

# Two backward stable solves of one system differ by about cond * n * EPS relative to the
# solution: 1e6 * 20 * 2.2e-16 = 4e-9 at the very worst; the problems compared with
# GPyTorch's Cholesky have cond <= 1e4, which gives 4e-11.
POSTERIOR = 1e-10

# As POSTERIOR, for oracles that solve linear systems with cond <= 1e6.
LINEAR_SOLVE = 4e-9

# Identities of the same floating-point numbers through another order of operations: a
# few hundred roundings of terms at most 1e3 times the result.
REARRANGED = 1e-10

# The oracle's conic solver runs at 1e-9 (relative gap and feasibility); its value moves
# by the multipliers of the constraints (up to 1e3 here) times that, hence 1e-6. The
# project promises 1e-5 on outcomes of order one.
SOCP = 1e-5

# Clarabel inside the convex form runs at 1e-10, with both balls scaled to one.
CONVEX_VALUE = 1e-5

# Differentiating through the conic solution divides its error by the smallest slack of
# the optimality conditions; the project promises 1e-3.
CONVEX_GRADIENT = 1e-3

# The objective of the exact bound is computed with about n * EPS * (its largest term)
# of noise, and the search stops when a step promises less than 1e-13 of the half-width;
# orderings between bounds are allowed this much of the half-width B sqrt(k(x, x)).
ORDER = 1e-11

# Exact scale equivariance, promised to 1e-9: powers of ten are not powers of two, so
# the scaled problem is rounded differently (cond * EPS).
SCALE = 1e-9

# Reordering the data changes the rounding of everything. At a data point the variance that
# no outcome explains is a difference of EPS * k(x, x), and the bound takes its square root
# times at most the norm: sqrt(EPS) = 1.5e-8 of the half-width, a few times over.
PERMUTATION = 1e-7

# A root found by `brentq` in log tau to 1e-13, and the conic oracle's 1e-9 next to it.
LEAST_NORM = 1e-6

# The witness's norm, misfit and value are smooth in the regulariser; the search leaves
# it at a slope of at most sqrt(1e-13) relative, so first-order quantities (norm, misfit)
# are right to sqrt(1e-13) = 3e-7 and a factor for curvature, the value to 1e-12.
WITNESS_CONSTRAINT = 1e-5
WITNESS_VALUE = 1e-7

# Comparison in float32: one rounding of the result.
SINGLE = 1.2e-7

# Central differences of `gradcheck`: step 1e-6, so truncation 1e-12 times the third
# derivative (1e3 to 1e5 here) and round-off 1e-13 / 1e-6 = 1e-7.
GRADCHECK = {"eps": 1e-6, "atol": 1e-6, "rtol": 1e-4}

# False-alarm rate of one coverage test: a correct bound that only just holds with
# probability 1 - delta fails it this often over seeds (and the seeds are fixed). There are
# fewer than a hundred such tests: one in a hundred for all of them together, at the most.
COVERAGE_FALSE_ALARM = 1e-4

# Against 60 digits. Kernel values are rounded to EPS, so the part of k(x, .) outside the
# span of the data is known to sqrt(a few EPS) = 3e-8 of its norm, which moves a bound by
# up to B times that: relative to bounds of about B / 10, 3e-7. The project promises 1e-6.
HIGH_PRECISION = 1e-6

# The bandit's bounds next to the stateless ones at the same regularisers, relative to the
# norm bound. Round-off of the Schur complements is kept below 1e-10 by renewing the
# eigenbasis. The project promises 1e-8.
BANDIT = 1e-8

# At an observed input, where the fit constraint alone decides, the bound is attained as
# tau falls to zero, and round-off eps k of the variance stands next to noise^2 tau: the
# best value that double precision can find is about sqrt(eps) = 1.5e-8 of the norm bound
# above the exact one, for the stateless class as for the bandit, each with its own error.
BANDIT_AT_DATA = 5e-8

# Eigenvalues below n EPS lam_max count as zero in the stateless class. With n = 62 and
# lam_max <= n / 0.1^2 that leaves out up to sqrt(62 EPS 6200) = 9e-6 times a coordinate of
# k(x, .), about 1e-2 between data points, times one of y_w, about one: 1e-7.
BANDIT_UNRESOLVED = 1e-7

# An eigenvalue dropped below 4 EPS lam_max shifts the mean by at most B times its share,
# sqrt(4 EPS n) / (2 noise) relative at the ridge parameter itself: measured 1.2e-8 at
# n = 300 and noise 1e-3; a cut-off n times larger gives 2.3e-7 and must fail.
SMALL_NOISE_MEAN = 5e-8

# Joint samples at a repeated point: the covariance is known to a few EPS k(x, x), so the
# difference has a deviation of sqrt(10 EPS k) = 7e-8 for k = 2.5, times an inflated scale
# of 30 and four standard deviations.
REPEATED_SAMPLE = 1e-5
# Logarithms of normal tails at u = (mean - best) / deviation, about -u^2 / 2. Means differ
# by LINEAR_SOLVE each and deviations are at least 0.05 (a few observations of noise 0.16),
# so u by 2 * 4e-9 / 0.05 = 1.6e-7, and the logarithm by |u| times that, below 1.6e-7
# absolute for |u| < 1 and 1.6e-7 relative beyond.
LOG_TAIL = 2e-7

# Posteriors without a noise term: the covariance of the evaluated candidates has condition
# numbers of up to 1e6 in these tests, and the oracle inverts it; see LINEAR_SOLVE.
META_POSTERIOR = 4e-9

# A completed matrix of exact low rank: the sweeps stop at relative changes of 1e-5 and
# contract by at least the observed share, here half or more, so they end within a few times
# that of the fixed point, except for rows with hardly more values than the rank.
META_COMPLETION = 1e-3

# A sketch whose inducing points span the data: what round-off may hide is added to the
# remainder, (m + 8) EPS tr(K_w) = 48 * EPS * 40 / 0.1^2 = 4e-11 against tau of order one,
# and the split turns it into its square root, 7e-6 of the width; directions of the inducing
# points below 1e-10 of the largest are left out, sqrt(1e-10) = 1e-5 of the norm bound.
SKETCH_EQUAL = 3e-5

# The same sums in another order: REARRANGED in the matrices, whose share the split turns
# into at most its square root, 1e-5; nearly always far less.
SKETCH_UPDATE = 1e-5

# The dense formulas of the sketch: linear solves with V / lam, cond at most 1e5 here, of
# features whose basis divides round-off by the smallest resolved eigenvalue's root. The
# project promises 1e-8.
SKETCH = 1e-8

# Kernel values of order one from differences against GPyTorch's expanded squares, whose
# round-off is a few eps |x|^2; five of them are combined at most.
KERNEL = 256 * EPS

# A number in 17 digits, read by the pandas parser that Ax uses: it takes the first 15
# decimals and multiplies by a power of ten, 1e-15 / 2 and two or three roundings.
DIGITS = 1.3e-15

# The value that a search reaches, relative to it or to one, where the same problem was
# rounded differently: on another processor, in other units, stored and read. L-BFGS-B stops
# where a step gains less than 2.2e-9; what two searches then leave out differs by a few
# hundred such steps at the most. The place is known only to the root of that.
SEARCHED = 1e-6
