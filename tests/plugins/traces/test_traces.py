"""Traces of a running service, as a collector receives them over OTLP."""

import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from online.plugins.grpc.protos import online_pb2 as ours
from online.plugins.traces.plugin import PLUGIN, are_wanted
from tests.conftest import Start
from tests.plugins.cluster.test_forwarding import CONFIG
from tests.plugins.grpc.test_grpc import RpcClients, numbers
from tests.plugins.traces.receiver import Receiver, receive
from tests.support import Service, until

VEC = """
[[models]]
name = "vec"
kind = "classifier"
options = { input = "vector", size = 2, scale = 4.0 }
"""
TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED, NOT_SAMPLED = {"traceparent": f"00-{TRACE}-{CALLER}-01"}, {"traceparent": f"00-{TRACE}-{CALLER}-00"}
PREDICT, FEEDBACK = "/v1/models/vec:predict", "/v1/models/vec:feedback"
OF_PREDICT, OF_FEEDBACK = "POST /v1/models/{model}:predict", "POST /v1/models/{model}:feedback"
ROW = {"instances": [[0.5, 1.0]]}


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """A receiver that the services of the test send to, every 50 ms."""
    with receive() as running:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", running.endpoint)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
        yield running


def give(service: Service, headers: dict[str, str], *ids: str) -> list[int]:
    """Give feedback, wait until it is served, and return its offsets."""
    items = [{"id": id, "input": [n, 1.0], "label": f"class {n % 2}"} for n, id in enumerate(ids)]
    answer = service.http.post(FEEDBACK, json={"feedback": items}, headers=headers)
    assert answer.status_code == 202, answer.text
    offsets = [receipt["offset"] for receipt in answer.json()["receipts"]]
    service.wait_learned("vec", offsets[-1])
    return offsets


def test_one_trace_leads_from_feedback_to_the_version_that_has_learned_it(start: Start, receiver: Receiver) -> None:
    service = start(VEC)
    give(service, {}, "earlier")
    first, *_, last = give(service, SAMPLED, "a", "b", "c")
    names = OF_FEEDBACK, "commit", "until served", "learn", "publish", "adopt"
    request, commit, served, learn, publish, adopt = receiver.wait(TRACE, *names)
    assert request.parent == CALLER
    assert commit.parent == served.parent == request.id
    assert learn.parent == publish.parent == adopt.parent == served.id
    assert {span.process for span in (request, commit, served, adopt)} == {"worker-0"}
    assert {span.process for span in (learn, publish)} == {"learner"}
    assert request.attributes["online.first_offset"] == first and request.attributes["online.last_offset"] == last
    assert request.attributes["http.response.status_code"] == 202 and not request.is_error
    assert commit.attributes["online.offset"] == served.attributes["online.offset"] == last
    assert learn.attributes["online.first_offset"] <= first and learn.attributes["online.last_offset"] >= last  # type: ignore[operator]
    version = publish.attributes["online.version"]
    assert served.attributes["online.version"] == adopt.attributes["online.version"] == version
    assert publish.attributes["online.learned_until"] == served.attributes["online.learned_until"] == last
    assert request.began_ns <= commit.began_ns <= commit.ended_ns <= served.began_ns
    assert learn.began_ns <= learn.ended_ns <= publish.began_ns <= publish.ended_ns
    assert adopt.began_ns <= adopt.ended_ns <= served.ended_ns


@pytest.mark.parametrize("path", [PREDICT, "/v1/models/vec/labels/latest:predict"])
def test_a_prediction_has_a_span_with_the_version_that_answered(start: Start, receiver: Receiver, path: str) -> None:
    """The first path is answered without ASGI, the second by a route."""
    service = start(VEC)
    last = give(service, {}, "a", "b")[-1]
    answer = service.http.post(path, json=ROW, headers=SAMPLED)
    name = f"POST {path.replace('vec', '{model}').replace('latest', '{label}')}"
    (span,) = receiver.wait(TRACE, name)
    assert answer.status_code == 200 and span.parent == CALLER
    assert span.attributes["online.version"] == int(answer.headers["X-Model-Version"])
    assert span.attributes["online.learned_until"] == last and span.attributes["http.response.status_code"] == 200
    assert span.began_ns < span.ended_ns


def test_a_call_of_grpc_continues_the_trace_of_its_caller(start: Start, receiver: Receiver) -> None:
    rpcs = RpcClients(start(VEC, flags=("--grpc-port", "0")))
    request = ours.GiveRequest(model="vec", feedback=[ours.Item(input=numbers([0.5, 1.0]), label="a")])
    rpcs.feedback.Give(request, timeout=60, metadata=(*SAMPLED.items(),))
    span, served = receiver.wait(TRACE, "online.v1.Feedback/Give", "until served")
    assert span.parent == CALLER and served.parent == span.id


def test_an_error_of_the_caller_is_no_error_of_the_service(start: Start, receiver: Receiver) -> None:
    service = start(VEC)
    assert service.http.post(FEEDBACK, json={"feedback": [{}]}, headers=SAMPLED).status_code == 400
    (span,) = receiver.wait(TRACE, OF_FEEDBACK)
    assert span.attributes["http.response.status_code"] == 400 and not span.is_error


def test_what_the_caller_does_not_sample_is_not_sent(start: Start, receiver: Receiver) -> None:
    service = start(VEC)
    give(service, NOT_SAMPLED, "a")
    service.http.post(PREDICT, json=ROW, headers=NOT_SAMPLED)
    assert service.stop() == 0  # all is sent by then
    assert receiver.of(TRACE) == [] and all(span.trace != TRACE for span in receiver.spans)


def test_the_variables_of_opentelemetry_sample_and_name_the_service(
    start: Start, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_always_off")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "library")
    service = start(VEC)
    service.http.post(PREDICT, json=ROW)
    give(service, SAMPLED, "a")
    receiver.wait(TRACE, OF_FEEDBACK, "learn", "until served")
    assert {span.trace for span in receiver.spans} == {TRACE}
    assert {span.service for span in receiver.spans} == {"library"}


def test_feedback_that_no_version_has_learned_ends_its_trace_with_the_service(start: Start, receiver: Receiver) -> None:
    service = start(VEC)
    give(service, {}, "a")
    assert service.http.post("/v1/models/vec:freeze", json={"reason": "a test"}).status_code == 200
    body = {"feedback": [{"id": "b", "input": [0.5, 1.0], "label": "a"}]}
    assert service.http.post(FEEDBACK, json=body, headers=SAMPLED).status_code == 202
    assert service.stop() == 0
    (served,) = receiver.wait(TRACE, "until served")
    assert served.is_error and "online.version" not in served.attributes


def test_a_collector_that_is_away_disturbs_nothing(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    service = start(VEC)
    give(service, SAMPLED, "a")
    assert service.http.post(PREDICT, json=ROW, headers=SAMPLED).status_code == 200
    assert service.stop() == 0


def test_another_worker_forwards_the_trace(start: Start, receiver: Receiver) -> None:
    service = start(VEC, workers=2)
    for number in range(8):  # whichever worker gets it
        with httpx.Client(base_url=service.url, timeout=30) as client:
            body = {"feedback": [{"id": f"f{number}", "input": [0.5, 1.0], "label": "a"}]}
            trace = f"{number:032x}".replace("0", "a")
            headers = {"traceparent": f"00-{trace}-{CALLER}-01"}
            assert client.post(FEEDBACK, json=body, headers=headers).status_code == 202
            request, _ = receiver.wait(trace, OF_FEEDBACK, "publish")
            assert request.parent == CALLER and request.process == "worker-0"


def test_a_request_that_another_replica_answers_has_a_span_of_each(
    tmp_path: Path, postgres_url: str, receiver: Receiver
) -> None:
    texts = [CONFIG.format(store=postgres_url, own=own) for own in ("first", "sec*")]
    one, two = (Service(tmp_path / str(number), text) for number, text in enumerate(texts))
    for service in (one, two):
        service.http.headers["Authorization"] = "Bearer a key for tests"
    until(lambda: one.http.get("/v1/models/second").status_code == 200, what="the other replica to be known")
    body = {"feedback": [{"id": "a", "input": [0.5, 1.0], "label": "a"}]}
    assert one.http.post("/v1/models/second:feedback", json=body, headers=SAMPLED).status_code == 202
    (served,) = receiver.wait(TRACE, "until served")
    for service in (one, two):
        assert service.stop() == 0
    spans = {span.id: span for span in receiver.spans if span.trace == TRACE}
    answering = spans[served.parent]
    forwarding = spans[answering.parent]
    assert answering.name == forwarding.name == OF_FEEDBACK and forwarding.parent == CALLER
    assert forwarding.attributes["http.response.status_code"] == 202
    assert forwarding.began_ns <= answering.began_ns <= answering.ended_ns <= forwarding.ended_ns


def test_without_the_extra_the_service_says_what_is_missing(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    for name in [
        name for name in sys.modules if name.startswith("online.plugins.traces.") and "plugin" not in name[22:]
    ]:
        monkeypatch.delitem(sys.modules, name)
    assert PLUGIN.tracer(tmp_path, "worker-0") is None
    assert "pip install 'online[traces]'" in caplog.text


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318", "OTEL_TRACES_EXPORTER": "none"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318", "OTEL_SDK_DISABLED": "true"}, False),
    ],
)
def test_traces_are_off_unless_the_environment_names_a_collector(environment: dict[str, str], wanted: bool) -> None:
    assert are_wanted(environment) is wanted
