"""Reads what a report found from the first lines of its page, where `report.html` writes it."""

import re
from html import unescape
from pathlib import Path

from pydantic import ValidationError

from online.schemas.reports import Finding

HEAD_BYTES = 8_192  # of a page, which hold it
META = re.compile(r'<meta name="(verdict|description)" content="([^"]*)">')


def read_finding(page: Path) -> Finding | None:
    """None for a page of an older release, and for one that is gone."""
    try:
        with open(page, "rb") as file:
            head = file.read(HEAD_BYTES).decode(errors="replace")
    except OSError:
        return None
    found = {name: unescape(text) for name, text in META.findall(head)}
    try:
        return Finding.model_validate({"level": found.get("verdict"), "sentence": found.get("description")})
    except ValidationError:
        return None
