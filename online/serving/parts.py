"""What plugins keep while a service runs: for the service, and for each model.

build: Plugin.service_part(runtime), Plugin.model_part(model, runtime)
start: background() of each    log replaced: forget_log()    stop: close()
"""

from collections.abc import Coroutine, Iterable
from typing import Any

Work = Coroutine[Any, Any, None]


class ServicePart:
    """The part of a service that a plugin contributes. Each method does nothing unless it is overridden."""

    async def start(self) -> None:
        """Begin, before the service says that it is ready. Raises SetupError."""

    def background(self, is_primary: bool) -> Iterable[Work]:
        """What runs beside the requests until the service stops. is_primary: whether this is the first worker."""
        return ()

    async def close(self) -> None:
        """Write what is not written yet. A part of the service or of a model has ended its background
        work by then; a part of the API has not.
        """


class ModelPart(ServicePart):
    """The part of a served model that a plugin contributes."""

    def forget_log(self) -> None:
        """Drop what is in memory about a log that is no longer there."""
