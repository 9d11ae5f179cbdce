"""Regression: a kind that answers numbers with intervals, by exact statistics, and follows a moving world."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from online.plugin import Plugin

if TYPE_CHECKING:
    from online.models.kinds import KindSpec


class RegressionPlugin(Plugin):
    """The hooks of regression."""

    name = "regression"

    def kinds(self) -> "Iterable[KindSpec]":
        """Return this plugin's kinds of models."""
        from online.models.kinds import KindSpec

        return (
            KindSpec(
                "regressor",
                "online.plugins.regression.regressor:Regressor",
                "regression",
                is_exact=True,
                can_hash_texts=True,
                has_partial_sums=True,
            ),
        )


PLUGIN = RegressionPlugin()
