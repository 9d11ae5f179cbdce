"""Encoder tuning: the text encoder of a model, tuned on its feedback and taken into use where it is proven better."""

from typing import TYPE_CHECKING

from online.plugin import Plugin

if TYPE_CHECKING:
    from typer import Typer

    from online.plugins.encoder_tuning.encoder_tuner import EncoderTuner
    from online.plugins.encoder_tuning.settings import TuningSettings
    from online.serving.runtime import Runtime


class EncoderTuningPlugin(Plugin):
    """The hooks of encoder tuning."""

    name = "encoder_tuning"

    def settings(self) -> "type[TuningSettings]":
        """Return the class of this plugin's settings."""
        from online.plugins.encoder_tuning.settings import TuningSettings

        return TuningSettings

    def commands(self, app: "Typer") -> None:
        """Add this plugin's commands."""
        from online.plugins.encoder_tuning.command import adapt

        app.command()(adapt)

    def service_part(self, runtime: "Runtime") -> "EncoderTuner | None":
        """Create this plugin's part of the service."""
        from online.plugins.encoder_tuning.encoder_tuner import EncoderTuner
        from online.plugins.encoder_tuning.settings import TuningSettings

        is_wanted = runtime.settings.part(TuningSettings).encoder_adapt and runtime.is_primary
        return EncoderTuner(runtime) if is_wanted else None


PLUGIN = EncoderTuningPlugin()
