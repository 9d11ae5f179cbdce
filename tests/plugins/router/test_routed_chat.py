"""A router in front of real HTTP endpoints: which route answers, what the caller gets, and what is learned from it."""

from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

from online.client import Client
from tests.conftest import Start
from tests.plugins.router.fake_upstream import FakeUpstream, serve_fake
from tests.support import Service, erase, until

QUESTION = "How tall is the tower?"


@pytest.fixture(scope="module")
def upstream() -> Iterator[FakeUpstream]:
    with serve_fake() as fake:
        yield fake


def models(upstream: FakeUpstream, routes: dict[str, str], guard: str = "callers", **options: object) -> str:
    """Return the configuration of a router. routes: name -> the model that its endpoint is asked for."""
    tables = "".join(
        f'[[models.routes]]\nname = "{name}"\nurl = "{upstream.url}"\nmodel = "{model}"\nretries = 0\n'
        f"price_in = {place + 1.0}\nprice_out = {place * 10 + 1.0}\n"
        for place, (name, model) in enumerate(routes.items())
    )
    stated = "".join(f"{name} = {str(value).lower()}\n" for name, value in options.items())
    return f'[[models]]\nname = "router"\nkind = "router"\nguard = "{guard}"\n[models.options]\ntext_features = "hashed"\n{stated}{tables}'


def ask(service: Service, text: str = QUESTION, **more: Any) -> httpx.Response:
    body = {"model": "router", "messages": [{"role": "user", "content": text}], **more}
    return service.http.post("/v1/chat/completions", json=body)


def rate(service: Service, completion: Any, reward: float, user: str | None = None) -> int:
    item = {"prediction_id": completion["id"], "reward": reward, **({"user": user} if user else {})}
    receipt = service.http.post("/v1/models/router:feedback", json={"feedback": [item]}).raise_for_status().json()
    return int(receipt["receipts"][0]["offset"])


def describe(service: Service) -> dict[str, Any]:
    described: dict[str, Any] = service.http.get("/v1/models/router").raise_for_status().json()
    return described


def wait_learned(service: Service, offset: int) -> str:
    """Wait until an offset is learned; return the hash of what was learned."""

    def learned() -> str | None:
        found = describe(service)
        return str(found["weights_sha256"]) if found["learned_until"] >= max(offset, found["head"]) else None

    return str(until(learned, what=f"offset {offset}"))


@pytest.fixture
def two(start: Start, upstream: FakeUpstream) -> Service:
    return start(models(upstream, {"small": "say:from small", "large": "say:from large"}, explore=0.0))


def test_the_cheaper_route_answers_while_nothing_is_known(two: Service) -> None:
    answer = ask(two)
    completion = answer.json()
    assert completion["choices"][0]["message"]["content"] == "from small"
    assert answer.headers["X-Route"] == "small" and float(answer.headers["X-Propensity"]) == 1
    assert completion["system_fingerprint"].startswith("small@") and float(answer.headers["X-Cost"]) > 0


def test_thumbs_move_questions_to_the_other_route(two: Service) -> None:
    offset = max(rate(two, ask(two).json(), 0.0) for _ in range(3))
    wait_learned(two, offset)
    assert ask(two).headers["X-Route"] == "large"


def test_a_route_that_grows_worse_stops_nothing(start: Start, upstream: FakeUpstream) -> None:
    routes = {"small": "say:from small", "large": "say:from large"}
    service = start(models(upstream, routes, guard="all", explore=0.0))
    asked = list[str]()
    for reward in (*[1.0] * 40, *[0.0] * 60):
        answer = ask(service)
        asked.append(answer.headers["X-Route"])
        offset = rate(service, answer.json(), reward)
    wait_learned(service, offset)
    assert set(asked[:40]) == {"small"} and "large" in asked[40:]
    assert "rolled back" not in service.output and "frozen" not in service.output


def test_a_thumb_that_is_taken_back_moves_them_again(two: Service) -> None:
    completion = ask(two).json()
    item = {"id": "mine", "prediction_id": completion["id"], "reward": 0.0}
    given = two.http.post("/v1/models/router:feedback", json={"feedback": [item]}).raise_for_status().json()
    wait_learned(two, given["receipts"][0]["offset"])
    assert ask(two).headers["X-Route"] == "large"
    taken_back = two.http.delete("/v1/models/router/feedback/mine").raise_for_status().json()
    wait_learned(two, taken_back["offset"])
    assert ask(two).headers["X-Route"] == "small"


def test_what_an_answer_took_is_an_event_of_the_log(two: Service) -> None:
    ask(two).raise_for_status()
    until(lambda: describe(two)["head"] == 1, what="the outcome")
    wait_learned(two, 1)
    assert two.http.get("/v1/models/router/usage").raise_for_status().json()["total"]["rated"] == 0


def test_the_openai_client_reads_a_stream(two: Service) -> None:
    with openai.OpenAI(base_url=f"{two.url}/v1", api_key="anything", max_retries=0) as client:
        stream = client.chat.completions.create(
            model="router",
            messages=[{"role": "user", "content": QUESTION}],
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = [*stream]
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == "from small" and len({chunk.id for chunk in chunks}) == 1
    assert chunks[-1].usage is not None and chunks[-1].usage.total_tokens > 0


def test_tools_and_unknown_fields_reach_the_route(two: Service, upstream: FakeUpstream) -> None:
    tools = [{"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}]
    ask(two, tools=tools, seed=7, response_format={"type": "json_object"}).raise_for_status()
    body = upstream.last.body
    assert body["tools"] == tools and body["seed"] == 7 and body["response_format"] == {"type": "json_object"}


@pytest.mark.parametrize("failing", ["broken", "malformed", "limited", "status:401"])
def test_a_route_that_fails_is_replaced_by_the_next_one(start: Start, upstream: FakeUpstream, failing: str) -> None:
    service = start(models(upstream, {"small": failing, "large": "say:from large"}, explore=0.0))
    answer = ask(service)
    assert answer.status_code == 200 and answer.headers["X-Route"] == "large"
    until(lambda: "route failed" in service.output, what="the line in the log")


def test_what_the_caller_did_wrong_is_not_repeated_elsewhere(start: Start, upstream: FakeUpstream) -> None:
    service = start(models(upstream, {"small": "refuse", "large": "say:from large"}, explore=0.0))
    answer = ask(service)
    assert answer.status_code == 400 and "error" in answer.json()


def test_no_route_answers(start: Start, upstream: FakeUpstream) -> None:
    service = start(models(upstream, {"small": "broken", "large": "malformed"}, explore=0.0))
    answer = ask(service)
    assert answer.status_code == 502
    assert answer.json()["error"]["message"] == "no route has answered: small (dead), large (malformed)"


def test_a_stream_that_is_cut_ends_with_an_error(start: Start, upstream: FakeUpstream) -> None:
    service = start(models(upstream, {"small": "cut", "large": "say:from large"}, explore=0.0))
    text = ask(service, stream=True).text
    assert '"upstream_error"' in text and "[DONE]" not in text


def test_a_caller_who_leaves_in_mid_stream_ends_the_request_to_the_route(start: Start, upstream: FakeUpstream) -> None:
    service = start(models(upstream, {"small": "drip#left"}, explore=0.0))
    body = {"model": "router", "messages": [{"role": "user", "content": QUESTION}], "stream": True}
    upstream.reset()
    with service.http.stream("POST", "/v1/chat/completions", json=body) as response:
        upstream.wait_for_requests()
        upstream.release()
        next(response.iter_bytes())
    upstream.wait_until_gone("drip#left")
    until(lambda: describe(service)["head"] == 1, what="the outcome")


def test_a_caller_who_leaves_before_the_first_token_does_too(start: Start, upstream: FakeUpstream) -> None:
    service = start(models(upstream, {"small": "drip#early"}, explore=0.0))
    body = {"model": "router", "messages": [{"role": "user", "content": QUESTION}], "stream": True}
    upstream.reset()
    with pytest.raises(httpx.ReadTimeout):
        service.http.post("/v1/chat/completions", json=body, timeout=0.5)
    upstream.wait_for_requests()
    upstream.release()
    upstream.wait_until_gone("drip#early")


def test_the_routes_and_the_reasons_of_a_choice_can_be_seen(two: Service) -> None:
    completion = ask(two).json()
    wait_learned(two, rate(two, completion, 0.0))
    until(lambda: describe(two)["head"] == 2, what="the outcome")
    wait_learned(two, 2)
    state = two.http.get("/v1/models/router/routes").raise_for_status().json()
    small, large = state["routes"]
    assert (small["name"], small["ratings"], small["outcomes"], small["state"]) == ("small", 1.0, 1, "closed")
    assert small["dollars"] > 0 and large["ratings"] == 0 and state["max_cost_per_1k"] is None
    why = two.http.get(f"/v1/models/router/predictions/{completion['id']}/route").raise_for_status().json()
    assert (why["route"], why["propensity"]) == ("small", 1.0)
    assert [each["route"] for each in why["expected"]] == ["large", "small"]
    assert two.http.get("/v1/models/router/predictions/nothing/route").status_code == 404


def test_a_task_of_the_page_is_no_prediction(two: Service) -> None:
    body = {
        "model": "router",
        "messages": [{"role": "user", "content": "Name it"}],
        "metadata": {"task": "title_generation"},
    }
    completion = two.http.post("/v1/chat/completions", json=body).json()
    assert completion["id"].startswith("chatcmpl-task-")
    assert completion["choices"][0]["message"]["content"] == "from small"


def test_an_erased_user_leaves_what_never_seeing_them_leaves(two: Service) -> None:
    rate(two, ask(two).json(), 1.0)
    never = wait_learned(two, 2)
    rate(two, ask(two, user="ann").json(), 0.0, "ann")
    assert wait_learned(two, 4) != never
    with Client(two.url, "router") as client:
        erase(client, "ann")
    assert wait_learned(two, 5) == never


def test_a_signal_stands_beside_the_thumb_of_the_same_person_and_a_preference_replaces_it(two: Service) -> None:
    completion = ask(two).json()

    def give(reward: float, signal: str | None = None) -> float:
        """Give a reward; return by how much of a thumb the route is rated then."""
        item = {
            "prediction_id": completion["id"],
            "reward": reward,
            "user": "ada",
            **({"signal": signal} if signal else {}),
        }
        given = two.http.post("/v1/models/router:feedback", json={"feedback": [item]}).raise_for_status().json()
        wait_learned(two, given["receipts"][0]["offset"])
        return sum_of("ratings")

    def sum_of(figure: str) -> float:
        return float(sum(each[figure] for each in two.http.get("/v1/models/router/routes").json()["routes"]))

    assert give(1.0) == 1.0
    assert give(1.0, "copy") == 1.25
    assert give(0.0, "copy") == 1.25
    assert give(0.0, "preference") == 1.25
    assert give(1.0) == 1.25
    assert until(lambda: sum_of("outcomes"), what="the outcome") == 1
