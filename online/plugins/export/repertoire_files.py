"""The replies of a ranker and their example questions as one file, from which a device answers without the service.

It holds what a caller may read one reply at a time (`GET replies/{id}`), of the replies that are given now. Texts instead of
features: a device encodes them as it can, and the file of a hundred replies is a few kilobytes.
"""

import hashlib
import json
from collections import defaultdict
from dataclasses import dataclass

from sqlalchemy import Connection

from online.store.repertoire.examples import load_examples
from online.store.repertoire.replies import load_replies

FORMAT = 1


@dataclass(frozen=True, slots=True)
class RepertoireFile:
    """A written repertoire and its hash."""

    data: bytes
    sha256: str


def write_repertoire_file(connection: Connection, model: str) -> RepertoireFile:
    """Return the file of the replies that are active: JSON, the same bytes for the same replies."""
    examples = defaultdict[str, list[str]](list)
    for reply, _, text in load_examples(connection, model):
        examples[reply].append(text)
    replies = [
        {"id": row.id, "text": row.text, "examples": examples[row.id]}
        for row in load_replies(connection, model)
        if row.active
    ]
    content = {"format": FORMAT, "model": model, "replies": replies}
    data = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
    return RepertoireFile(data, hashlib.sha256(data).hexdigest())
