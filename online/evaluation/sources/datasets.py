"""Datasets inside river and scikit-learn, by name: `river:Phishing`, `sklearn:digits`."""

from collections.abc import Iterator
from typing import Any

from online.errors import BadInput
from online.io.parquet_tables import plain_value
from online.schemas.json_values import JSON


def open_dataset(name: str) -> Iterator[tuple[JSON, str | float]]:
    """Return (instance, label) of each row of river:NAME or sklearn:NAME. Raises BadInput."""
    where, _, which = name.partition(":")
    if where == "river":
        return (
            ({key: plain_value(value) for key, value in row.items()}, label) for row, label in open_river_dataset(which)
        )
    return read_sklearn_dataset(which)


def open_river_dataset(which: str) -> Any:
    """Return a dataset of river. Raises BadInput for an unknown dataset, or one that is neither classification nor regression."""
    from river import datasets
    from river.datasets import base

    create = getattr(datasets, which, None)
    if create is None:
        known = sorted(each for each in datasets.__all__ if isinstance(getattr(datasets, each), type))
        raise BadInput(f"river has no dataset {which!r}; it has {', '.join(known)}")
    found = create()
    if found.task not in (base.BINARY_CLF, base.MULTI_CLF, base.REG):
        raise BadInput(f"river's {which} is neither a classification nor a regression dataset")
    return found


SKLEARN_NAMES = ("digits", "wine", "breast_cancer", "iris", "diabetes")


def read_sklearn_dataset(which: str) -> Iterator[tuple[JSON, str | float]]:
    """Yield the rows of a dataset of scikit-learn. Raises BadInput for an unknown name."""
    if which not in SKLEARN_NAMES:
        raise BadInput(f"scikit-learn has no dataset {which!r} here; one of {', '.join(SKLEARN_NAMES)}")
    try:
        from sklearn import datasets
    except ImportError:
        raise BadInput("scikit-learn is not installed; pip install scikit-learn") from None
    rows, labels = getattr(datasets, f"load_{which}")(return_X_y=True)
    return ((row.tolist(), label.item()) for row, label in zip(rows, labels, strict=True))
