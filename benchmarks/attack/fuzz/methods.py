r"""Every public method of the objects, with right arguments."""

from typing import Any

from benchmarks.attack.fuzz.checks import (
    Target,
    check_numbers,
    check_posterior,
    check_sides,
    check_state,
    check_values,
)
from benchmarks.attack.fuzz.world import one, shared, world


def methods() -> list[Target]:
    r"""All of them."""
    w = world()
    targets = []

    def add(owner: str, method: str, use: Any, **arguments: Any) -> None:
        changes = method in _CHANGING
        make = one if changes else shared
        after = (lambda _: None) if use is None else use
        targets.append(
            Target(
                f"{owner}.{method}",
                lambda **given: getattr(make(owner), method)(**given),
                lambda: dict(arguments),
                after,
            )
        )

    for owner in _ACQUISITIONS:
        points = w.X if owner.startswith("meta") else w.queries
        add(owner, "bounds", check_sides, X=points)
        add(owner, "forward", check_values, X=points.unsqueeze(1))
        add(owner, "set_X_pending", None, X_pending=points[:2])
        add(owner, "load_state_dict", None, state_dict={})
    add("dual", "majorant", check_values, X=w.queries.unsqueeze(1))
    add("dual", "witness", lambda each: check_numbers(each.norm), X=w.X[:1], upper=True)
    add("bandit", "bounds", check_sides, arms=w.queries)
    add("bandit", "select", None, arms=w.queries)
    add("bandit", "observe", None, x=w.X[5], y=0.5)
    add("budgeted", "observe", None, arms=[3, 4], outcomes=[0.1, 0.2])
    add("budgeted", "batch_select", None, max_size=2)
    for owner in ("state", "nystrom"):
        add(owner, "mean", check_values, X=w.queries)
        add(owner, "variance", check_values, X=w.queries)
        add(owner, "with_pending", check_state, X_pending=w.queries)
    add("state", "with_noise_std", check_state, noise_std=0.2)
    add("nystrom", "observe", check_state, X=w.X[:2], Y=w.Y[:2], noise_std=0.1)
    add("norms", "observe", check_numbers, model=w.state, noise_std=0.1, delta=0.1,
        covariance_scale=1.0)  # fmt: skip
    add(
        "radius",
        "observe_predictions",
        None,
        mean=0.0,
        variance=1.0,
        outcome=0.5,
        noise_std=0.1,
        X=w.X[0],
    )
    add("radius", "observe", None, model=w.model, X=w.X[:2], Y=w.Y[:2], noise_std=0.1)
    add("radius", "radius", None, regression=w.state)
    add("tracker", "observe", check_numbers, model=w.state)
    add("thompson", "forward", check_numbers, X=w.queries, num_samples=2)
    add("thompson", "sample_values", check_values, X=w.queries, num_samples=2)
    add("thompson", "paths", None, num_samples=1, num_features=16)
    add("safe", "margin", check_values, X=w.queries)
    add("safe", "is_safe", None, X=w.queries)
    add("safe", "filter", None, choices=w.queries)
    add("safe", "repair", check_numbers, X=w.queries, anchors=w.X[:1])
    add("bkb_model", "posterior", lambda post: check_numbers(post.mean), X=w.queries)
    for method in ("observe", "condition_on_observations"):
        add("bkb_model", method, check_posterior, X=w.X[:2], Y=w.Y[:2].unsqueeze(-1))
    for owner in ("bandit", "budgeted", "norms", "radius", "tracker", "bkb_model"):
        add(owner, "load_state_dict", None, state_dict={})
    return targets


_ACQUISITIONS = (
    "dual", "grid", "analytic", "model", "unknown", "abbasi_yadkori", "streaming",
    "sketched", "bkb", "scalarized", "meta", "meta_pi",
)  # fmt: skip
_CHANGING = ("set_X_pending", "load_state_dict", "observe", "observe_predictions")
