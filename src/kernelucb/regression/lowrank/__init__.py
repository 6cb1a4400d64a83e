r"""Regression in the span of a few inducing points.

``basis`` (features of inducing sections, the one cut-off) is below everything; ``sketch``
holds what observations say about features, also as a ridge regression. On both stand the
deterministic training conditional of BKB (``dtc`` for any inputs, with inducing points
drawn from them; ``arms`` for a finite set, kept up to date at low rank) and the certified
band (``nystrom`` on ``weights``).
"""
