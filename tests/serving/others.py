"""Another page's server: Open WebUI as far as it keeps feedback, with what 0.12.4 said and sent when it was recorded."""

import json
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

KEY = "sk-5579c83a326049ecb2e0ef13d7265c6d"
PAGE_ITEMS = 30
FEEDBACK: dict[str, Any] = {
    "id": "7257907e-4356-4ad6-80db-c625c214f29d",
    "user_id": "892eac64-40dd-46c8-a5cf-36f958f690d9",
    "version": 0,
    "type": "rating",
    "data": {
        "rating": 1,
        "model_id": "chat",
        "sibling_model_ids": None,
        "reason": None,
        "comment": None,
        "details": None,
        "tags": ["General"],
    },
    "meta": {
        "model_id": "chat",
        "message_id": "09777cbb-3f3b-4b06-a705-6d207d064c66",
        "message_index": 2,
        "chat_id": "04fc7064-934f-4b8f-965f-1a1f8f78cff3",
        "base_models": {"chat": None},
    },
    "created_at": 1795289875,
    "updated_at": 1795289876,
}
EVENT: dict[str, Any] = {
    "schema": "0.12.4",
    "id": "51bd8079-88b0-4ec2-875e-2b8ac2b12993",
    "event": "feedback.created",
    "resource": "feedback",
    "operation": "created",
    "created_at": 1795289875,
    "instance_id": "02344a0b-98f9-440e-9b4e-a2b3fd0a8597",
    "version": "0.12.4",
    "source": "api",
    "actor": {
        "id": "892eac64-40dd-46c8-a5cf-36f958f690d9",
        "name": "A",
        "email": "a@example.org",
        "role": "admin",
        "created_at": 1795289808,
        "updated_at": 1795289808,
        "type": "user",
    },
    "subject": {"type": "feedback", "id": "7257907e-4356-4ad6-80db-c625c214f29d"},
    "data": {"rating": 1},
    "message": None,
}
NOT_FOUND = {"detail": "We could not find what you're looking for :/"}
NO_KEY = {"detail": "Your session has expired or the token is invalid. Please sign in again."}


def event(operation: str, feedback_id: str, rating: int | None = None) -> dict[str, Any]:
    """What its webhook posts. deleted: without a rating."""
    data = {} if operation.startswith("deleted") else {"rating": rating}
    about = {"subject": {"type": "feedback", "id": feedback_id}, "data": data, "operation": operation}
    return {**EVENT, **about, "id": str(uuid.uuid4()), "event": f"feedback.{operation}"}


class OpenWebuiThere:
    """Its HTTP API over `kept`, feedback by id. asked: the paths that were asked for, in order."""

    def __init__(self, port: int = 0) -> None:
        self.kept: dict[str, dict[str, Any]] = {}
        self.clock = 1795290000
        self.asked: list[str] = []
        self.status = 200  # another one: what it answers to everything
        handler = type("Handler", (Handler,), {"there": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", port), handler)
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def rate(self, message_id: str, rating: int | str | None, id: str = "", **data: Any) -> str:
        """Create a feedback, or with its id change it; gives its id."""
        self.clock += 1
        id = id or str(uuid.uuid4())
        self.kept[id] = {
            **FEEDBACK,
            "id": id,
            "data": {**FEEDBACK["data"], "rating": rating, **data},
            "meta": {**FEEDBACK["meta"], "message_id": message_id},
            "updated_at": self.clock,
        }
        return id

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def newest_first(self) -> list[dict[str, Any]]:
        return sorted(self.kept.values(), key=lambda kept: -int(kept["updated_at"]))

    def answer(self, path: str, query: dict[str, list[str]]) -> tuple[int, Any]:
        place = path.removeprefix("/api/v1/evaluations")
        if place == "/feedbacks/all/ids":
            names = ("id", "user_id", "created_at", "updated_at")
            return 200, [{name: kept[name] for name in names} for kept in self.newest_first()]
        if place == "/feedbacks/list":
            assert query["order_by"] == ["updated_at"] and query["direction"] == ["desc"]
            start = PAGE_ITEMS * (int(query["page"][0]) - 1)
            user = {"id": FEEDBACK["user_id"], "name": "A", "email": "a@example.org", "role": "admin"}
            items = [{**kept, "user": user} for kept in self.newest_first()[start : start + PAGE_ITEMS]]
            return 200, {"items": items, "total": len(self.kept)}
        found = self.kept.get(place.removeprefix("/feedback/"))
        return (200, {**found, "snapshot": {"chat": {}}}) if found else (404, NOT_FOUND)


class Handler(BaseHTTPRequestHandler):
    there: OpenWebuiThere

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        self.there.asked.append(url.path.removeprefix("/api/v1/evaluations"))
        status, content = self.there.answer(url.path, parse_qs(url.query))
        if self.headers["Authorization"] != f"Bearer {KEY}":
            status, content = 401, NO_KEY
        if self.there.status != 200:
            status, content = self.there.status, {"detail": "Not Found"}
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""
