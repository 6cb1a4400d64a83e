r"""The folder for Optuna's hub: its own tests, loaded as that hub loads it."""

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "contrib/optunahub/package/samplers"


@pytest.mark.slow  # a process of its own, with Optuna
def test_the_sampler_s_own_tests_pass():
    pytest.importorskip("optunahub", reason="pip install optuna optunahub")
    own = FOLDER / "martingale_mixture_ucb" / "tests"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(own)]
    done = subprocess.run(
        [*command, "-c", "/dev/null"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
