"""Ensembles: kinds that contain other models, and answer by the best of them or by their votes; challengers of any kind."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from online.plugin import Plugin

if TYPE_CHECKING:
    from online.models.kinds import KindSpec
    from online.models.wrappers import ModelWrapper


class EnsemblesPlugin(Plugin):
    """The hooks of ensembles."""

    name = "ensembles"

    def kinds(self) -> "Iterable[KindSpec]":
        """Return this plugin's kinds of models."""
        from online.plugins.ensembles.kinds import KINDS

        return KINDS

    def wrappers(self) -> "Iterable[ModelWrapper]":
        """Return the option `challenger`."""
        from online.plugins.ensembles.challenger_option import ChallengerOption

        return [ChallengerOption()]


PLUGIN = EnsemblesPlugin()
