"""The hooks of a plugin, all on one page. Our own features use them, and so may anybody's.

    class Rooms(Plugin):
        name = "rooms"

        def routers(self) -> Iterable[Router]:
            from rooms.routes import router

            return [router]

A plugin of this package is a folder of online/plugins with `PLUGIN = Rooms()` in its plugin.py; one of another package names
the object as an entry point of the group "online.plugins" (examples/plugin). A hook imports what it needs when it is
called: commands and models start without FastAPI, SQLAlchemy and torch. The core imports no plugin. What a plugin keeps is found
by its class: `settings.part(RoomSettings)`, `runtime.parts.find(Rooms)`, `model.parts.find(RoomOfModel)`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

    from fastapi import FastAPI, Request
    from pydantic import BaseModel
    from sqlalchemy import Connection
    from typer import Typer

    from online.api.routes import Router
    from online.api.shared_routes import Dialect
    from online.evaluation.replay.replay_report import WritePage
    from online.installed import ContributedParts
    from online.learning.workers import WorkerSupport
    from online.models.devices.observer import DeviceObserver, Role
    from online.models.devices.probe import Devices
    from online.models.kinds import KindSpec
    from online.models.wrappers import ModelWrapper
    from online.serving.erasure.files import NameSearch
    from online.serving.feedback.feedback_review import FeedbackReview
    from online.serving.model_runtime import ModelRuntime
    from online.serving.parts import ModelPart, ServicePart
    from online.serving.runtime import Runtime
    from online.snapshots import Snapshots
    from online.state.tuned_encoders import FetchEncoder
    from online.state.workspace import Workspace
    from online.store.database.tables import TableGroup
    from online.store.erasure.log import ErasedNames
    from online.telemetry import MetricsPart, Tracer


class Page(NamedTuple):
    """An HTML page at /NAME, beside those of the service. Its scripts and styles must come from the service itself."""

    name: str
    file: "Path"


class Plugin:
    """A feature that can be installed and deleted. Each hook contributes nothing unless it is overridden."""

    name: str
    requires: tuple[str, ...] = ()  # names of plugins that this one imports
    uses: tuple[str, ...] = ()  # names of plugins that some of its modules import, which only those plugins load

    def settings(self) -> "type[BaseModel] | None":
        """Return fields of the service's settings, with defaults and descriptions; read with `Settings.part`.

        Names are those in online.toml. The module imports nothing of online.settings; types of fields are in online.schemas.fields.
        """
        return None

    def metrics(self) -> "type[MetricsPart] | None":
        """Return a class whose constructor registers metrics, called once in each process; read with `Metrics.part`."""
        return None

    def kinds(self) -> "Iterable[KindSpec]":
        """Return kinds of models, each with the module and class that `create` imports."""
        return ()

    def wrappers(self) -> "Iterable[ModelWrapper]":
        """Return options that every kind of model has, each of which adds a second model to a model."""
        return ()

    def tables(self) -> "Iterable[TableGroup]":
        """Return tables of the store, with their migrations. A plugin with a table also overrides `forget_user`."""
        return ()

    def forget_user(self, connection: "Connection", erased: "ErasedNames") -> "Mapping[str, int]":
        """Delete what the tables keep of an erased user, in a transaction of the erasure; return counts for its statement.

        It is called when the user's feedback is retracted, and again when the log no longer has it. A repetition changes nothing.
        """
        return {}

    def forget_records(self, connection: "Connection", model: str, ids: "Sequence[str]") -> None:
        """Delete what the tables keep of feedback and predictions, in the transaction that deletes or blanks these.

        ids: of feedback, also of held feedback, and of predictions. A repetition changes nothing.
        """

    def forget_words(self, connection: "Connection", model: str, ids: "Sequence[str]") -> None:
        """Blank the words that the tables keep of predictions, in the transaction in which a user deletes their conversation.

        ids: of predictions. What was learned stays.
        """

    def forget_in_files(
        self, workspace: "Workspace", user: "NameSearch", parts: "ContributedParts"
    ) -> "Mapping[str, object]":
        """Remove an erased user from the plugin's files; return what the statement of the erasure says of them.

        parts: those of the running service; none where it is stopped. A repetition changes nothing. Raises FileInUse for a
        file that is in use now; the hook is called again then.
        """
        return {}

    def forget_versions(
        self, workspace: "Workspace", snapshots: "Snapshots", parts: "ContributedParts"
    ) -> "Mapping[str, object]":
        """Delete the files that were made of versions which an erasure has deleted. The rest is as in `forget_in_files`."""
        return {}

    def routers(self) -> "Iterable[Router]":
        """Return routes, each with the scope that it needs. They are tried after those of the core."""
        return ()

    def api_part(self, app: "FastAPI") -> "ServicePart | None":
        """Return what the plugin keeps for the API, found in `app.state.parts`. `app.state` has runtime, callers, and rates; what
        is appended to `app.state.outermost` wraps the application, with its answers to errors.
        """
        return None

    def dialect(self) -> "Dialect | None":
        """Return another protocol's shape of the routes that it shares with ours (api/shared_routes.py); one plugin has one."""
        return None

    def unmatched_error(self, request: "Request") -> "Exception | None":
        """Return the error of a request under /v1 that no route matches, where it is meant for the plugin's protocol."""
        return None

    def error_body(self, request: "Request", status: int, text: str, error: Exception) -> "Mapping[str, object] | None":
        """Return the body of an error, where the plugin's protocol has another shape than {"error": "..."}."""
        return None

    def feedback_urls(self, request: "Request", model: str, prediction_ids: "Sequence[str]") -> "Sequence[str] | None":
        """Return a URL for each of these predictions; its holder may rate the prediction. One plugin has them."""
        return None

    def grpc_services(self, runtime: "Runtime") -> "Iterable[object]":
        """Return the gRPC services of the plugin, each a `Service` of the plugin `grpc`."""
        return ()

    def feedback_review(self) -> "FeedbackReview | None":
        """Return what decides about feedback of callers that are not trusted, in its transaction; one plugin has it."""
        return None

    def worker_support(self) -> "WorkerSupport | None":
        """Return how other processes learn with a learner, on this machine or others; one plugin has them."""
        return None

    def device_observer(
        self, state: "Path", process: str, role: "Role", devices: "Devices", caps: "Mapping[str, int]"
    ) -> "DeviceObserver | None":
        """Return what is informed of the devices on which a process learns or answers; one plugin has it.

        process: `learner`, or `worker-0` and so on. caps: bytes that the process may take, by device.
        """
        return None

    def tracer(self, state: "Path", process: str) -> "Tracer | None":
        """Return what follows requests through a process, from its start to its end; one plugin has it.

        process: `learner`, or `worker-0` and so on. state: the folder of the service, which all of them have.
        """
        return None

    def replay_page(self) -> "WritePage | None":
        """Return a function that writes the results of a replay as a page, for `online replay --report`; one plugin has one."""
        return None

    def pages(self) -> "Iterable[Page]":
        """Return pages for people. A page may use every route with the session of the browser that shows it."""
        return ()

    def commands(self, app: "Typer") -> None:
        """Add commands to `online`. What they import when they are added, every command imports."""

    def encoder_source(self, workspace: "Workspace") -> "FetchEncoder | None":
        """Return what brings a tuned encoder that a state folder lacks: it writes the file, or raises Unavailable."""
        return None

    def service_part(self, runtime: "Runtime") -> "ServicePart | None":
        """Return what the plugin keeps for the service while it runs, and what runs in the background."""
        return None

    def model_part(self, model: "ModelRuntime", runtime: "Runtime") -> "ModelPart | None":
        """Return what the plugin keeps for one model while it is served, and what runs in the background."""
        return None
