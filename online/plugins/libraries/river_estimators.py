"""Builds estimators of river: by a short name, by their place inside river, or by a factory of the operator.

"arf" | "forest.ARFClassifier" | "shop_models:make_pipeline" + params --> a river estimator
"""

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from online.models.contract import BadExample, Options
from online.models.encoders.values import parse_row
from online.models.operator_code import call_factory, is_import_path
from online.schemas.json_values import JSONObject

LARGEST = 1e100


@dataclass(frozen=True, slots=True)
class EstimatorSpec:
    """A river class and its usual parameters.

    part: a parameter that is itself an object of river, and how to build that.
    """

    place: str
    params: Options = field(default_factory=dict)
    part: "tuple[str, EstimatorSpec] | None" = None


# exact search: river's own default, a graph, is not the same in every run
NEAREST = ("engine", EstimatorSpec("neighbors.LazySearch", {"window_size": 500}))


def build_own_estimator(path: str, params: Mapping[str, object], is_right: Callable[[object], bool], noun: str) -> Any:
    """Build what a factory of the operator makes. Raises ValueError that says why it cannot be used.

    is_right: whether an estimator, or the last step of a pipeline, is one that can be used.
    """
    made = call_factory(path, dict(params))
    if not is_right(last_step(made)):
        raise ValueError(f"{path} makes a {type(made).__name__}, which is not {noun} of river")
    if unseeded := find_unseeded(made):
        raise ValueError(f"{path} makes a {unseeded} without a seed: give it one, so that one log leaves one model")
    return made


def last_step(estimator: object) -> Any:
    """Return the last step of a pipeline; any other estimator itself."""
    from river import compose

    return [*estimator.steps.values()][-1] if isinstance(estimator, compose.Pipeline) else estimator


def find_unseeded(estimator: object) -> str:
    """Return the name of a class inside the estimator that has a parameter `seed` without a value; "" if there is none."""
    return find_without_seed(type(estimator).__name__, getattr(estimator, "_get_params", dict)())


def find_without_seed(name: str, params: Mapping[str, object]) -> str:
    """params: those of the class `name`, as river lists them: a part is (its class, its params), a step its params."""
    if "seed" in params and params["seed"] is None:
        return name
    for key, value in params.items():
        inner = value if isinstance(value, tuple) and len(value) == 2 else (key, value)
        if isinstance(inner[1], Mapping):
            found = find_without_seed(getattr(inner[0], "__name__", str(inner[0])), inner[1])
            if found:
                return found
    return ""


def build_estimator(
    name: str,
    params: Mapping[str, object],
    named: Mapping[str, EstimatorSpec],
    is_right: Callable[[object], bool],
    noun: str,
) -> Any:
    """Build an estimator by its short name, or by its place inside river. Raises ValueError."""
    spec = named.get(name) or EstimatorSpec(name)
    found = import_from_river(spec.place, named)
    if not (isinstance(found, type) and is_right(found)):
        raise ValueError(f"river's {spec.place} is not {noun}")
    return build_part(spec, params)


def build_part(spec: EstimatorSpec, params: Mapping[str, object]) -> Any:
    """Build a river object with `params` over its usual ones; those of its part go to the part.

    A class with a parameter `seed` gets seed 0, so that the same log grows the same forest.
    """
    found = import_from_river(spec.place, {})
    own = dict(params)
    parts: JSONObject = {}
    if spec.part is not None:
        parameter, part = spec.part
        theirs = {
            name: own.pop(name)
            for name in inspect.signature(import_from_river(part.place, {})).parameters
            if name in own
        }
        parts = {parameter: build_part(part, theirs)}
    seeded = {"seed": 0} if "seed" in inspect.signature(found).parameters else {}
    try:
        return found(**seeded | dict(spec.params) | parts | own)
    except TypeError as error:
        raise ValueError(f"river's {spec.place} does not take these params: {error}") from None


def import_from_river(place: str, named: Mapping[str, EstimatorSpec]) -> Any:
    """Return the attribute of river at "module.Name". Raises ValueError if there is none."""
    module, _, attribute = place.rpartition(".")
    try:
        return getattr(importlib.import_module(f"river.{module}"), attribute)
    except (ImportError, AttributeError):
        raise ValueError(
            f"river has no {place!r}; use a short name ({', '.join(named)}), a place inside river such as "
            "'forest.ARFClassifier', or 'package.module:factory' of your own"
        ) from None


def is_own(estimator: str) -> bool:
    """Return whether the option names code of the operator."""
    return is_import_path(estimator)


# rows


def to_river_row(data: bytes, one_hot: bool = True) -> JSONObject:
    """Return a row for river: numbers unchanged, a category as `name=value`: 1, or unchanged without `one_hot`."""
    if not one_hot:
        return dict(parse_row(data))
    return {
        (k if isinstance(v, float) else f"{k}={v}"): (v if isinstance(v, float) else 1.0)
        for k, v in parse_row(data).items()
    }


def read_river_row(data: bytes, one_hot: bool = True) -> JSONObject:
    """Return a row to learn from. Raises BadExample for what no encoder produces, and for a number that is too large."""
    try:
        row = to_river_row(data, one_hot)
    except (ValueError, AttributeError):
        raise BadExample("features that are not a JSON object") from None
    too_large = next((k for k, v in row.items() if not isinstance(v, str) and abs(v) > LARGEST), None)
    if too_large is not None:
        raise BadExample(
            f"{too_large} is {row[too_large]:g}: numbers beyond {LARGEST:g} make a running variance overflow for good"
        )
    return row
