r"""The best of very many candidates, scored by the workers of a Ray cluster (extra `ray`).

Ray places the work, repeats what a lost worker or machine had not finished, and connects
where ``ray.init`` or the environment variable ``RAY_ADDRESS`` says; on its own it starts on
this machine.
"""

import logging

from botorch.acquisition import AcquisitionFunction
from botorch.exceptions import InputDataError
from torch import Tensor

from kernelucb._numerics.checks import whole_number
from kernelucb.optim import chunked
from kernelucb.optim.chunked import Best

_LOG = logging.getLogger(__name__)
_SHARDS_PER_CPU = 4


def argmax(
    acqf: AcquisitionFunction,
    candidates: Tensor,
    chunk_size: int = 1024,
    num_shards: int | None = None,
    max_retries: int = 3,
) -> Best:
    r"""The candidate of largest value, the first where several tie.

    The candidates are divided at multiples of ``chunk_size``, so every worker scores the
    very chunks that ``chunked.argmax`` scores: the result is the same to the last bit where
    the machines and their numbers of threads are alike.

    Args:
        acqf: An acquisition function of single points, sent to each worker once.
        candidates: ``n x d`` points, at least one.
        chunk_size: Number of candidates that are scored at once.
        num_shards: Number of tasks; by default four for each processor of the cluster.
        max_retries: How often a task is repeated whose worker was lost.

    Raises:
        ImportError: If Ray is not installed. Other errors: see ``chunked.argmax``.
    """
    try:
        import ray
    except ImportError as error:
        raise ImportError(
            "Sharded scoring needs Ray: pip install kernelucb[ray]"
        ) from error
    size = whole_number("chunk_size", chunk_size)
    if candidates.dim() != 2 or len(candidates) <= size:
        return chunked.argmax(acqf, candidates, size)
    if not ray.is_initialized():
        _LOG.info("Ray is not connected: ray.init() connects, or starts it here.")
        ray.init()
    processors = ray.cluster_resources().get("CPU", 1)
    shards = whole_number("num_shards", num_shards or _SHARDS_PER_CPU * int(processors))
    length = size * -(-len(candidates) // (size * shards))
    parts = candidates.split(length)
    _LOG.info(
        "%d candidates in %d tasks of %d, on %g processors.",
        *(len(candidates), len(parts), length, processors),
    )
    score = ray.remote(max_retries=max_retries)(_best_of_shard)
    function = ray.put(acqf)
    tasks = [
        # A copy: a view would be sent with everything that it is a view of.
        score.remote(function, part.clone(), size, length * number)
        for number, part in enumerate(parts)
    ]
    # Of equal ones, `max` takes the first.
    return max(ray.get(tasks), key=lambda best: best.value)


def _best_of_shard(
    acqf: AcquisitionFunction, shard: Tensor, chunk_size: int, start: int
) -> Best:
    r"""The best candidate of a shard that starts at position ``start``."""
    try:
        best = chunked.argmax(acqf, shard, chunk_size)
    except InputDataError as error:
        raise InputDataError(f"Counted from candidate {start}: {error}") from error
    return best._replace(index=start + best.index)
