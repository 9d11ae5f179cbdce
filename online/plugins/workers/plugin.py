"""Workers: other processes sum parts of a log for a learner, or learn parts of its towers."""

from typing import TYPE_CHECKING

from online.plugin import Plugin

if TYPE_CHECKING:
    from online.plugins.workers.settings import WorkerSettings
    from online.plugins.workers.support import BoardWorkers


class WorkersPlugin(Plugin):
    name = "workers"
    requires = ("towers",)

    def settings(self) -> "type[WorkerSettings]":
        """Return the class of this plugin's settings."""
        from online.plugins.workers.settings import WorkerSettings

        return WorkerSettings

    def worker_support(self) -> "BoardWorkers":
        from online.plugins.workers.support import BoardWorkers

        return BoardWorkers()


PLUGIN = WorkersPlugin()
