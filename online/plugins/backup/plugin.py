"""Backup: the store, the newest durable versions and the keys in one verified file, and back."""

from typing import TYPE_CHECKING

from online.plugin import Plugin

if TYPE_CHECKING:
    from typer import Typer


class BackupPlugin(Plugin):
    """The hooks of backups."""

    name = "backup"

    def commands(self, app: "Typer") -> None:
        """Add this plugin's commands."""
        from online.plugins.backup.command import backup, restore

        app.command()(backup)
        app.command()(restore)


PLUGIN = BackupPlugin()
