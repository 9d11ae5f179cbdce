"""Alerts that are sent to webhooks: how their delivery goes, and a test.

Only the operator's settings name webhooks. No request does, so that nobody can make the service call an address.
"""

from functools import partial

import orjson
from fastapi import Response
from pydantic import Field
from sqlalchemy import Connection

from online.api.audit import record
from online.api.auth.scopes import CallerDep
from online.api.dependencies import ModelDep, RuntimeDep
from online.api.responses import json_response
from online.api.routes import Router
from online.plugins.alerts.alerts import list_endpoints, send_test
from online.plugins.alerts.deliveries import AlertRow, load_alerts, load_deliveries
from online.plugins.alerts.settings import AlertSettings
from online.schemas.fields import Wire
from online.schemas.json_values import JSONObject
from online.serving.runtime import Runtime

router = Router()

MAX_LISTED = 50


class EndpointState(Wire):
    """endpoint: the address of a webhook, without its path, which may be secret."""

    endpoint: str
    waiting: int = Field(description="Alerts that are not delivered yet.")
    delivered_at: str | None = Field(description="When the last one was delivered.")
    error: str | None = Field(description="Of the last attempt that failed.")
    failed_at: str | None


class SentAlert(Wire):
    """An alert that was sent, or is being sent."""

    id: str
    event: str
    model: str | None = Field(description="Null for the service itself.")
    at: str
    sentence: str
    figures: JSONObject


class AlertsAnswer(Wire):
    """The alerts of a model and of the service, and how their delivery goes."""

    endpoints: list[EndpointState]
    is_signed: bool = Field(description="Whether there is an alert_secret.")
    min_interval_s: float
    alerts: list[SentAlert] = Field(description="The newest ones about the model and about the service, newest first.")


class TestedEndpoint(Wire):
    """The result of a test of one webhook."""

    endpoint: str
    status: int | None = Field(description="Of the HTTP answer; null without one.")
    error: str | None = Field(description="Null if the alert was accepted.")
    answer: str = Field(description="The first 300 characters of what the endpoint said.")
    duration_ms: float


class AlertTestAnswer(Wire):
    """The results of a test of all webhooks."""

    endpoints: list[TestedEndpoint]


@router.get("/v1/models/{model}/alerts", "operate", response_model=AlertsAnswer)
async def list_alerts(model: ModelDep, runtime: RuntimeDep) -> Response:
    """Where alerts are sent, how the last delivery went, and the newest alerts."""
    answer: AlertsAnswer = await model.read(partial(load_answer, model=model.spec.name, runtime=runtime))
    return json_response(answer.model_dump())


def load_answer(connection: Connection, model: str, runtime: Runtime) -> AlertsAnswer:
    """Return the alerts of a model and their deliveries."""
    settings = runtime.settings.part(AlertSettings)
    endpoints = [
        EndpointState(endpoint=each.name, **load_deliveries(connection, each.id))
        for each in list_endpoints(runtime.settings)
    ]
    return AlertsAnswer(
        endpoints=endpoints,
        is_signed=settings.alert_secret is not None,
        min_interval_s=settings.alert_min_interval_s,
        alerts=[describe_alert(row) for row in load_alerts(connection, model, MAX_LISTED)],
    )


def describe_alert(row: AlertRow) -> SentAlert:
    """Return an alert as the API shows it."""
    body = orjson.loads(row.body)
    return SentAlert(**{name: body[name] for name in ("id", "event", "model", "at", "sentence", "figures")})


@router.post("/v1/models/{model}/alerts:test", "operate", response_model=AlertTestAnswer)
async def test_alerts(model: ModelDep, runtime: RuntimeDep, caller: CallerDep) -> Response:
    """Send a test alert to every webhook, and return what each said."""
    results = await send_test(runtime.settings, model.spec.name, model.new_id())
    await record(runtime, caller, "test_alerts", model.spec.name)
    tested = [
        TestedEndpoint(
            endpoint=endpoint.name,
            status=attempt.status,
            error=attempt.error,
            answer=attempt.answer,
            duration_ms=attempt.duration_ms,
        )
        for endpoint, attempt in results
    ]
    return json_response(AlertTestAnswer(endpoints=tested).model_dump())
