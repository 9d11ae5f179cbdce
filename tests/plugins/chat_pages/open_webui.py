"""A server that stands in for Open WebUI: its feedback API, with payloads recorded from release 0.12.4."""

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
    """The body that its webhook posts. A deletion has no rating."""
    data = {} if operation.startswith("deleted") else {"rating": rating}
    changes = {"subject": {"type": "feedback", "id": feedback_id}, "data": data, "operation": operation}
    return {**EVENT, **changes, "id": str(uuid.uuid4()), "event": f"feedback.{operation}"}


class OpenWebui:
    """Serve the feedback API from `ratings`, which maps ids to feedback. requested: the requested paths, in order."""

    def __init__(self, port: int = 0) -> None:
        self.ratings: dict[str, dict[str, Any]] = {}
        self.clock = 1795290000
        self.requested: list[str] = []
        self.status = 200  # any other value is the answer to every request
        handler = type("Handler", (Handler,), {"open_webui": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", port), handler)
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def rate(self, message_id: str, rating: int | str | None, id: str = "", **data: Any) -> str:
        """Create a feedback, or change the one with the given id; return its id."""
        self.clock += 1
        id = id or str(uuid.uuid4())
        self.ratings[id] = {
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
        return sorted(self.ratings.values(), key=lambda rating: -int(rating["updated_at"]))

    def answer(self, path: str, query: dict[str, list[str]]) -> tuple[int, Any]:
        resource = path.removeprefix("/api/v1/evaluations")
        if resource == "/feedbacks/all/ids":
            names = ("id", "user_id", "created_at", "updated_at")
            return 200, [{name: rating[name] for name in names} for rating in self.newest_first()]
        if resource == "/feedbacks/list":
            assert query["order_by"] == ["updated_at"] and query["direction"] == ["desc"]
            start = PAGE_ITEMS * (int(query["page"][0]) - 1)
            user = {"id": FEEDBACK["user_id"], "name": "A", "email": "a@example.org", "role": "admin"}
            items = [{**rating, "user": user} for rating in self.newest_first()[start : start + PAGE_ITEMS]]
            return 200, {"items": items, "total": len(self.ratings)}
        found = self.ratings.get(resource.removeprefix("/feedback/"))
        return (200, {**found, "snapshot": {"chat": {}}}) if found else (404, NOT_FOUND)


class Handler(BaseHTTPRequestHandler):
    open_webui: OpenWebui

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        self.open_webui.requested.append(url.path.removeprefix("/api/v1/evaluations"))
        status, content = self.open_webui.answer(url.path, parse_qs(url.query))
        if self.headers["Authorization"] != f"Bearer {KEY}":
            status, content = 401, NO_KEY
        if self.open_webui.status != 200:
            status, content = self.open_webui.status, {"detail": "Not Found"}
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""
