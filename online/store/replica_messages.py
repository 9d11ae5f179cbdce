"""Messages between the replicas that share a store: each replica that listens hears one once its transaction is committed.

    send_message --NOTIFY, a JSON object--> the follower of each replica, also of the sender

They speed things up, and nothing depends on them: a replica that is absent, or listens again after an outage, misses them, and one
of an older release passes over a kind that it does not know. A store on SQLite has no other replica.
"""

import json
from collections.abc import Mapping
from contextlib import suppress

from sqlalchemy import Connection, text

from online.schemas.json_values import JSON, JSONObject
from online.store.events import CHANNEL

BEGIN = "{"  # of a message; the name of a model, which is also sent on the channel, never begins with it
MAX_BYTES = 7_900  # Postgres takes less than 8,000


def send_message(connection: Connection, kind: str, content: Mapping[str, JSON]) -> None:
    """Send a message once this transaction is committed. One that is too long is not sent."""
    message = json.dumps({"kind": kind, "content": content})
    if connection.dialect.name == "postgresql" and len(message) <= MAX_BYTES:  # JSON in ASCII: a character is a byte
        connection.execute(text("SELECT pg_notify(:channel, :message)"), {"channel": CHANNEL, "message": message})


def parse_message(payload: str) -> tuple[str, JSONObject]:
    """Return the kind and the content of a message; the kind "" for another payload, such as the name of a model."""
    if payload.startswith(BEGIN):
        with suppress(ValueError, KeyError, TypeError):
            parsed: JSONObject = json.loads(payload)
            return str(parsed["kind"]), {**parsed["content"]}
    return "", {}
