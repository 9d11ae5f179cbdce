"""A service on Postgres and on Redis Streams; no feedback is lost when Redis loses its data."""

from typing import Any

from redis import Redis

from tests.conftest import Start
from tests.support import Service

VECTOR = """
[[models]]
name = "vec"
kind = "classifier"
options = { input = "vector", size = 2, scale = 2.0 }
"""


def learn_some(service: Service, count: int, name: str) -> int:
    items = [{"id": f"{name}-{n}", "input": [n % 2, 1 - n % 2], "label": "ab"[n % 2]} for n in range(count)]
    offset: int = service.client("vec").feedback(items)[-1]["offset"]
    assert service.wait_learned("vec", offset)["head"] == offset
    return offset


def test_a_service_on_postgres_learns_and_retracts(start: Start, postgres_url: str) -> None:
    service = start(VECTOR, store=postgres_url)
    assert learn_some(service, 20, "first") == 20
    client = service.client("vec")
    answer = client.predict([[1, 0], [0, 1]])
    assert [each["label"] for each in answer["predictions"]] == ["b", "a"]
    receipt = client.label(answer["prediction_ids"][0], "c", id="mine")
    service.wait_learned("vec", client.retract("mine")["offset"])
    assert client.feedback_status(receipt["id"])["status"] == "retracted"
    assert service.stop() == 0


def test_a_service_on_redis_continues_after_redis_lost_its_data(start: Start, redis_url: str) -> None:
    service = start(VECTOR, stream=redis_url)
    assert learn_some(service, 20, "first") == 20
    redis: Any = Redis.from_url(redis_url)
    keys = [key for key in redis.scan_iter("online:*:vec") if redis.type(key) in (b"stream", b"hash")]
    assert keys, "the stream is in Redis"
    redis.delete(*keys)
    assert learn_some(service, 20, "second") == 40
    assert service.stop() == 0
    redis.delete(*keys)
