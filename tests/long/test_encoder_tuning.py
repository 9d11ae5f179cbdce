"""Encoders that are tuned several times, or adopted on other backends."""

from online.plugins.encoder_tuning.tuning import EncoderTuning
from tests.conftest import Start
from tests.plugins.encoder_tuning.test_adoption import BAR, check_adoption_under_traffic
from tests.plugins.encoder_tuning.test_tuning import QUICK, create_events, label, orders


def test_adopting_an_encoder_under_traffic_fails_no_request_on_postgres_and_redis(
    start: Start, postgres_url: str, redis_url: str
) -> None:
    check_adoption_under_traffic(start(BAR, store=postgres_url, stream=redis_url))


def test_adopting_an_encoder_under_traffic_fails_no_request_without_redis(start: Start) -> None:
    check_adoption_under_traffic(start(BAR))


def test_an_encoder_is_compared_with_the_one_in_use() -> None:
    events = create_events(*(label(text, drink) for text, drink in orders()))
    tuned = EncoderTuning("classifier", {}, events, QUICK).tune(events)
    frozen = EncoderTuning("classifier", {}, events, QUICK).judge()
    used = EncoderTuning("classifier", {}, events, QUICK, used=tuned).judge()
    assert used.before > frozen.before and used.after == frozen.after and not used.better
