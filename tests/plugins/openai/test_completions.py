"""The JSON of answers, whatever a language model puts into them."""

import json

from online.plugins.openai.completions import dump_answer, encode_event


def test_a_half_of_a_surrogate_pair_is_passed_on() -> None:
    content = {"choices": [{"delta": {"content": "a\ud83d"}}]}
    assert json.loads(dump_answer(content)) == content
    name, data = encode_event(content, "message").decode().strip().split("\n")
    assert name == "event: message" and json.loads(data.removeprefix("data: ")) == content
