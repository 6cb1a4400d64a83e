r"""Numerical building blocks that torch, scipy and BoTorch do not have."""

import logging

# What long work decides is logged under the package; who listens, chooses how. Here, which
# every module that logs imports, and not in the root: that stays quick, so that the demo
# can soon take over Ctrl-C.
logging.getLogger("kernelucb").addHandler(logging.NullHandler())
