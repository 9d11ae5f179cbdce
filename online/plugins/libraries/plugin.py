"""Estimators of river and scikit-learn as kinds of models."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from online.plugin import Plugin

if TYPE_CHECKING:
    from online.models.kinds import KindSpec


class LibrariesPlugin(Plugin):
    """The hooks of libraries."""

    name = "libraries"

    def kinds(self) -> "Iterable[KindSpec]":
        """Return this plugin's kinds of models."""
        from online.models.kinds import KindSpec, classifier

        return (
            classifier(
                "river",
                "online.plugins.libraries.river:River",
                inputs=("table",),
                state_is_signed=True,
                options_can_load_code=True,
            ),
            KindSpec(
                "river_regressor",
                "online.plugins.libraries.river_regressor:RiverRegressor",
                "regression",
                inputs=("table",),
                state_is_signed=True,
                options_can_load_code=True,
            ),
            classifier(
                "sklearn",
                "online.plugins.libraries.sklearn_classifier:SklearnClassifier",
                state_is_signed=True,
                options_can_load_code=True,
            ),
            KindSpec(
                "sklearn_regressor",
                "online.plugins.libraries.sklearn_regressor:SklearnRegressor",
                "regression",
                state_is_signed=True,
                options_can_load_code=True,
            ),
        )


PLUGIN = LibrariesPlugin()
