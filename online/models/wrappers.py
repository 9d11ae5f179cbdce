"""Options that every kind of model has, each of which adds a second model to a model. Plugins contribute them (`Plugin.wrappers`).

options = { ..., NAME = { kind, options, ... } } --create--> a model that contains both, the model and the second one
"""

from collections.abc import Mapping
from functools import cache

from online.installed import collect_all
from online.models.contract import Model, Options
from online.models.options import Option


class ModelWrapper:
    """An option of every kind: a table with the `kind` of a second model ("": the same) and its `options`."""

    option: Option

    def list_options(self) -> tuple[Option, ...]:
        """Return the options in the table."""
        raise NotImplementedError

    def create(self, kind: str, options: Options, device: str) -> Model:
        """Return a model that contains both. options: of the model, with the table. Raises ValueError."""
        raise NotImplementedError

    def find_answering(self, kind: str, options: Options, model: Model) -> tuple[str, Model]:
        """Return the kind and the object of the one that answers. model: one that `create` returned."""
        raise NotImplementedError

    def name_answering(self, metrics: Mapping[str, float]) -> str:
        """Return a word for the one that answers, by the metrics of a version; "" for a version without this option."""
        raise NotImplementedError

    def describe_figures(self, metrics: Mapping[str, float]) -> str:
        """Return the figures of both in one line, by the metrics of a version; "" for a version without this option."""
        raise NotImplementedError


@cache
def list_wrappers() -> tuple[ModelWrapper, ...]:
    """Return those of all installed plugins."""
    return tuple(collect_all("wrappers"))


def find_wrapper(options: Options) -> ModelWrapper | None:
    """Return the one that the options of a model ask for, or None."""
    return next((wrapper for wrapper in list_wrappers() if wrapper.option.name in options), None)


def list_added_kinds(kind: str, options: Options) -> list[str]:
    """Return the kinds of second models that a model's options add. `create` refuses unknown ones, and what is not a table."""
    tables = [options.get(wrapper.option.name) for wrapper in list_wrappers()]
    return [str(table.get("kind") or kind) for table in tables if isinstance(table, Mapping)]


def find_answering(kind: str, options: Options, model: Model) -> tuple[str, Model]:
    """Return the kind and the object of the model that answers: one of those in a wrapper's model, or the model itself."""
    wrapper = find_wrapper(options)
    return wrapper.find_answering(kind, options, model) if wrapper else (kind, model)


def name_answering(metrics: Mapping[str, float]) -> str:
    """Return a word for the one of several models that answers, by the metrics of a version; "" for a single model."""
    return "".join(wrapper.name_answering(metrics) for wrapper in list_wrappers())


def describe_figures(metrics: Mapping[str, float]) -> str:
    """Return the figures of several models in one line, by the metrics of a version; "" for a single model."""
    return ", ".join(text for wrapper in list_wrappers() if (text := wrapper.describe_figures(metrics)))
