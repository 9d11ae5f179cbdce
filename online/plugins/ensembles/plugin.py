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
        from online.models.kinds import classifier

        # a member may be a river model, whose state is signed and whose options load code
        of_both = {"is_ensemble": True, "adapts": True, "state_is_signed": True, "options_can_load_code": True}
        return (
            classifier("best_of", "online.plugins.ensembles.best_of:BestOf", **of_both),
            classifier("ensemble", "online.plugins.ensembles.ensemble:Ensemble", spans_devices=True, **of_both),
        )

    def wrappers(self) -> "Iterable[ModelWrapper]":
        """Return the option `challenger`."""
        from online.plugins.ensembles.challenger_option import ChallengerOption

        return [ChallengerOption()]


PLUGIN = EnsemblesPlugin()
