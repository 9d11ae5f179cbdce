"""A client in Python: predict, give feedback, wait until it is learned. Needs httpx alone."""

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    pass

Json = dict[str, Any]


class ClientError(Exception):
    """The service refused a request. `status` is the HTTP status, the text is the service's own."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Client:
    """Talks to one model of one service.

    >>> with Client("http://127.0.0.1:8000", "chat") as bot:
    ...     asked = bot.predict(["When are you open?"])
    ...     bot.reward(asked["prediction_ids"][0], 1.0)
    """

    def __init__(self, url: str, model: str, user: str | None = None, timeout_s: float = 30.0) -> None:
        import httpx

        self.model, self.user = model, user
        self._http: httpx.Client = httpx.Client(base_url=url, timeout=timeout_s)

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def predict(
        self, instances: Sequence[Any], min_offset: int | None = None, timeout_ms: int = 2_000, record: bool = True
    ) -> Json:
        """The answer's JSON. min_offset: answer only with a version that has learned this offset."""
        body: Json = {"instances": list(instances), "record": record, "timeout_ms": timeout_ms}
        body |= {"user": self.user} if self.user else {}
        body |= {"min_offset": min_offset} if min_offset is not None else {}
        return self._call("POST", ":predict", body)

    def reward(self, prediction_id: str, reward: float, **more: Any) -> Json:
        """How good the answer was, in [0, 1]. Gives the receipt."""
        return self.feedback([{"prediction_id": prediction_id, "reward": reward, **more}])[0]

    def teach(self, prediction_id: str, correction: str, **more: Any) -> Json:
        """The reply it should have given; new text is a new reply. Gives the receipt."""
        return self.feedback([{"prediction_id": prediction_id, "correction": correction, **more}])[0]

    def label(self, prediction_id: str, label: str | float, **more: Any) -> Json:
        """The right label, or for a regressor the right number. Gives the receipt."""
        return self.feedback([{"prediction_id": prediction_id, "label": label, **more}])[0]

    def feedback(self, items: Sequence[Mapping[str, Any]]) -> list[Json]:
        """All or nothing. Every item gets an id, so that sending it again has no second effect."""
        named = [{"id": uuid.uuid4().hex, **({"user": self.user} if self.user else {}), **item} for item in items]
        receipts: list[Json] = self._call("POST", ":feedback", {"feedback": named})["receipts"]
        return receipts

    def fate(self, feedback_id: str) -> Json:
        return self._call("GET", f"/feedback/{feedback_id}")

    def retract(self, feedback_id: str) -> Json:
        """Take feedback back; it is un-learned exactly. Gives the receipt."""
        return self._call("DELETE", f"/feedback/{feedback_id}")

    def erase(self, user: str) -> Json:
        """Un-learn everything a user said, and blank their name and words. Gives how much that was, and the offset."""
        return self._call("DELETE", f"/users/{quote(user, safe='')}")

    def wait_until_learned(self, offset: int, timeout_s: float = 10.0) -> Json:
        """The status of the first version seen that has learned `offset`. Raises TimeoutError."""
        for _, data in self.events(timeout_s):
            if data.get("learned_until", -1) >= offset:
                return self.status()
        raise TimeoutError(f"offset {offset} is not learned after {timeout_s} s")

    def status(self) -> Json:
        return self._call("GET", "")

    def versions(self) -> list[Json]:
        listed: list[Json] = self._call("GET", "/versions")["versions"]
        return listed

    def roll_back(self, version: str | int) -> Json:
        return self._call("POST", ":rollback", {"version": version})

    def replies(self) -> list[Json]:
        listed: list[Json] = self._call("GET", "/replies")["replies"]
        return listed

    def labels(self) -> list[Json]:
        listed: list[Json] = self._call("GET", "/labels")["labels"]
        return listed

    def retire_label(self, label: str) -> Json:
        """Stop giving a label until it is restored. Gives the receipt."""
        return self._call("DELETE", f"/labels/{quote(label, safe='')}")

    def restore_label(self, label: str) -> Json:
        """Give a retired label again, as if it had never been away. Gives the receipt."""
        return self._call("PUT", f"/labels/{quote(label, safe='')}")

    def events(self, timeout_s: float | None = None) -> Iterator[tuple[str, Json]]:
        """(name, data) as it happens; ends after `timeout_s` seconds without any."""
        import httpx

        name = ""
        try:
            with self._http.stream("GET", f"/v1/models/{self.model}/events", timeout=timeout_s) as response:
                for line in response.iter_lines():
                    if line.startswith("event: "):
                        name = line.removeprefix("event: ")
                    elif line.startswith("data: "):
                        yield name, json.loads(line.removeprefix("data: "))
        except httpx.ReadTimeout:
            return

    def _call(self, method: str, path: str, body: Json | None = None) -> Json:
        response = self._http.request(method, f"/v1/models/{self.model}{path}", json=body)
        content: Json = response.json()
        if response.status_code >= 400:
            raise ClientError(response.status_code, content.get("error", response.text))
        return content
