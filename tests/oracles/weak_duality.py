r"""Bounds by weak duality with explicit weights, from dense matrices.

For any weights ``a`` on the whitened observations, every function ``f`` with
``||f - m||_H <= B`` and ``||f_w - y_w|| <= r`` satisfies (notation of Flynn & Reeb, 2024)

    f(x) - m(x) <= a^T y_w + r |a| + B d(a),
    d(a) = || k(x, .) - sum_s a_s k(x_s, .) / sigma_s ||_H.                          (1)

With ``z`` the coordinates on the inducing sections and ``E`` the rest of the kernel matrix

    d(a)^2 <= |z(x) - Z^T a|^2 + (1 + s) (k(x, x) - |z(x)|^2) + (1 + 1/s) a^T E a.   (2)
"""

import torch


def squared_distance(kernel, X, noise_std, x, weights):
    r"""``d(a)^2`` of (1) at one point ``x`` (``1 x d``), for ``... x n`` weights."""
    scaled = weights / noise_std
    gram, section = kernel(X).to_dense(), kernel(X, x).to_dense()[:, 0]
    whole = kernel(x).to_dense()[0, 0]
    return whole - 2.0 * scaled @ section + _form(gram, scaled)


def _form(matrix, vectors):
    return (vectors @ matrix * vectors).sum(-1)


def split_distance(kernel, X, noise_std, x, weights, inducing, split):
    r"""Right-hand side of (2)."""
    scaled = weights / noise_std
    spanned, rest = nystrom_split(kernel, torch.cat([X, x]), inducing)
    section, whole = spanned[:-1, -1], spanned[-1, -1]
    resolved = whole - 2.0 * scaled @ section + _form(spanned[:-1, :-1], scaled)
    left = (1.0 + split) * rest[-1, -1]
    return resolved + left + (1.0 + 1.0 / split) * _form(rest[:-1, :-1], scaled)


def weak_dual_bound(residuals, noise_std, weights, radius, norm, squared):
    r"""Right-hand side of (1), given ``d(a)^2``."""
    distance = squared.clamp_min(0.0).sqrt()
    return (
        weights @ (residuals / noise_std) + radius * weights.norm(dim=-1) + norm * distance
    )


def nystrom_split(kernel, X, inducing):
    r"""``Q = K_XS K_SS^+ K_SX`` and ``K - Q``, dense."""
    gram, cross = kernel(X).to_dense(), kernel(X, inducing).to_dense()
    inner = torch.linalg.pinv(kernel(inducing).to_dense(), rtol=1e-10, hermitian=True)
    spanned = cross @ inner @ cross.mT
    return spanned, gram - spanned


def span_weights(kernel, X, residuals, noise_std, inducing, x, slopes, tau, inflation):
    r"""The best weights in the span of inducing features and outcomes.

    ``a = (P (Q + (1 + 1/s) E + tau) P)^+ P (q(x) - slope y_w)`` with ``P`` the projection
    on the span, ``Q`` and ``E`` whitened: stationarity of (1) with the distance replaced
    by its bound. The slope is free, any value is valid in (1): ``s`` of them, ``s x n``.
    """
    spanned, rest = nystrom_split(kernel, X, inducing)
    whiten = noise_std.reciprocal()
    unit = whiten.outer(whiten)
    features = kernel(X, inducing).to_dense() * whiten.unsqueeze(-1)
    outcomes = residuals * whiten
    basis = torch.cat([features, outcomes.unsqueeze(-1)], dim=-1)
    vectors, values, _ = torch.linalg.svd(basis, full_matrices=False)
    basis = vectors[:, values > 1e-10 * values[0]]
    matrix = basis.mT @ (unit * (spanned + inflation * rest)) @ basis
    matrix = matrix + tau * torch.eye(len(matrix)).to(matrix)
    inner = torch.linalg.pinv(kernel(inducing).to_dense(), rtol=1e-10, hermitian=True)
    section = features @ inner @ kernel(inducing, x).to_dense()[:, 0]
    right = (section - slopes.unsqueeze(-1) * outcomes) @ basis
    return torch.linalg.solve(matrix, right.mT).mT @ basis.mT
