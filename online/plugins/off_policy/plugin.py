"""Off-policy evaluation: what another policy would have earned, from the logged propensities."""

from typing import TYPE_CHECKING

from online.plugin import Plugin

if TYPE_CHECKING:
    from typer import Typer


class OffPolicyPlugin(Plugin):
    """The hooks of off-policy evaluation."""

    name = "off_policy"
    requires = ("regression",)

    def commands(self, app: "Typer") -> None:
        """Add this plugin's commands."""
        from online.plugins.off_policy.command import evaluate

        app.command()(evaluate)


PLUGIN = OffPolicyPlugin()
