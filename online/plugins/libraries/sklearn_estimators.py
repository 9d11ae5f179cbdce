"""Builds estimators of scikit-learn that learn by `partial_fit`, by a short name, their place, or a factory.

    "sgd" | "linear_model.SGDClassifier" | "sklearn.linear_model:SGDClassifier" | "shop_models:make" --> an estimator

Every parameter `random_state` without a value becomes 0, so that one log leaves one model.
"""

from collections.abc import Mapping
from typing import Any

from online.models.contract import Options
from online.models.operator_code import call_factory, import_attribute, is_import_path

Named = Mapping[str, tuple[str, Options]]


def build_estimator(name: str, params: Mapping[str, object], named: Named, method: str, noun: str) -> Any:
    """Build the estimator. method: "classifier" or "regressor", as scikit-learn calls its type.

    Raises ValueError that says why it cannot be used.
    """
    place, usual = named.get(name, (name, {}))
    path = place if is_import_path(place) else to_import_path(place, named)
    check_is_estimator(path, is_import_path(place))
    made = call_factory(path, {**usual, **params})
    from sklearn.base import is_classifier, is_regressor

    if not callable(getattr(made, "partial_fit", None)):
        raise ValueError(f"{name} makes a {type(made).__name__}, which has no partial_fit and so cannot learn online")
    is_right = is_classifier(made) if method == "classifier" else is_regressor(made)
    if not is_right:
        raise ValueError(f"{name} makes a {type(made).__name__}, which is not a {method}")
    unseeded = {key: 0 for key, value in made.get_params().items() if key.endswith("random_state") and value is None}
    return made.set_params(**unseeded)


def check_is_estimator(path: str, is_own: bool) -> None:
    """Raise ValueError if a place inside scikit-learn is anything but an estimator: it is called with parameters."""
    found = import_attribute(path)
    if not is_own and not (isinstance(found, type) and callable(getattr(found, "get_params", None))):
        raise ValueError(f"{path.replace(':', '.')} is not an estimator of scikit-learn")


def to_import_path(place: str, named: Named) -> str:
    """ "linear_model.SGDClassifier" -> "sklearn.linear_model:SGDClassifier". Raises ValueError."""
    module, _, attribute = place.rpartition(".")
    path = f"sklearn.{module}:{attribute}"
    if not is_import_path(path):
        raise ValueError(
            f"scikit-learn has no {place!r}; use a short name ({', '.join(named)}), a place inside scikit-learn such as "
            "'linear_model.SGDClassifier', or 'package.module:factory' of your own"
        )
    return path


def check_untrusted_name(options: Mapping[str, object], default: str, named: Named) -> None:
    """Raise ValueError unless the estimator is one of the short names, with its usual parameters."""
    estimator = options.get("estimator", default)
    if not isinstance(estimator, str) or estimator not in named:
        raise ValueError(f"option 'estimator' must be one of {', '.join(named)}")
    if options.get("params"):
        raise ValueError("option 'params' must be empty")
