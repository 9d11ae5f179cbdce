"""Reads what a report found from the first lines of its page, where `report.html` writes it."""

import re
from html import unescape
from pathlib import Path

from pydantic import ValidationError

from online.plugins.reports.schemas import Finding
from online.schemas.fields import Language
from online.state.workspace import name_translation

HEAD_BYTES = 8_192  # of a page, which hold it
META = re.compile(r'<meta name="(verdict|description)" content="([^"]*)">')
ROOT = re.compile(r'<html lang="([a-z]+)">')


def find_translation(page: Path, language: Language) -> Path:
    """Return a page in a language, or itself where it was not written in that language."""
    translation = name_translation(page, language)
    return translation if translation.exists() else page


def read_finding(page: Path) -> Finding | None:
    """Return None for a page that is gone."""
    try:
        with open(page, "rb") as file:
            head = file.read(HEAD_BYTES).decode(errors="replace")
    except OSError:
        return None
    found = {name: unescape(text) for name, text in META.findall(head)}
    root = ROOT.search(head)
    words = {"sentence": found.get("description"), "language": root[1] if root else "en"}
    try:
        return Finding.model_validate({"level": found.get("verdict"), **words})
    except ValidationError:
        return None
