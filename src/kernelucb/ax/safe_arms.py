r"""The last check of a safe trial: that what Ax hands out is still in the safe set."""

from collections.abc import Mapping, Sequence
from typing import Any

from ax.core.generator_run import GeneratorRun
from ax.core.observation import ObservationFeatures

from kernelucb.ax.bounds import images_of
from kernelucb.ax.contexts import replace_arms
from kernelucb.safety import SafeSet
from kernelucb.safety.safe_set import no_safe_point


def keep_safe_arms(
    run: GeneratorRun, safe_set: SafeSet, adapter: Any, arms: Sequence[Mapping[str, Any]]
) -> None:
    r"""Give safe arms back as they were given, and refuse what is not in the safe set.

    Args:
        run: The arms that Ax is about to hand out.
        safe_set: The safe set.
        adapter: What turns parameters into inputs of its bands.
        arms: Safe arms, complete.

    Raises:
        NoSafePointError: If an arm left the safe set when Ax turned it into parameters.
    """
    images = {tuple(row): arm for arm in arms for row in images_of(adapter, arm)}

    def exact(parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        features = ObservationFeatures(parameters=dict(parameters))
        row = adapter.transform_observation_features([features])
        if not bool(safe_set.is_safe(row).all()):
            raise no_safe_point(f"no arm close to {dict(parameters)}")
        return images.get(tuple(row[0].tolist()), parameters)

    replace_arms(run, exact)
