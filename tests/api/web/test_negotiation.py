"""What a client prefers, from its Accept headers."""

import pytest

from online.api.web.negotiation import pick_encoding, pick_language, prefers_html


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [
        ("gzip, deflate, br, zstd", "br"),
        ("gzip", "gzip"),
        ("GZIP;Q=0.5", "gzip"),
        ("br;q=0.5, gzip;q=0.8", "gzip"),
        ("br;q=0, gzip;q=0", "identity"),
        ("*", "br"),
        ("*;q=0.1, br;q=0", "gzip"),
        ("identity", "identity"),
        ("identity;q=1, gzip;q=0.5", "identity"),
        ("identity;q=0, gzip;q=0.5", "gzip"),
        ("br;q=2, gzip;q=high", "identity"),
        (",, ;", "identity"),
        ("", "identity"),
    ],
)
def test_the_preferred_encoding_that_exists_is_picked(accepted: str, encoding: str) -> None:
    assert pick_encoding(accepted, ["br", "gzip"]) == encoding


def test_without_compressed_files_nothing_is_compressed() -> None:
    assert pick_encoding("br, *", []) == "identity"


@pytest.mark.parametrize(
    ("accepted", "is_page"),
    [
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", True),
        ("*/*", False),
        ("application/json", False),
        ("application/json, text/html", False),
        ("application/json, text/html;q=0.5", False),
        ("application/json;q=0.5, text/html", True),
        ("", False),
    ],
)
def test_only_a_browser_that_navigates_prefers_html(accepted: str, is_page: bool) -> None:
    assert prefers_html(accepted) is is_page


@pytest.mark.parametrize(
    ("accepted", "language"),
    [
        ("de-CH, en;q=0.9", "de"),
        ("fr, de;q=0.5, en;q=0.4", "de"),
        ("en-GB, de", "en"),
        ("fr", "en"),
        ("de;q=0", "en"),
        ("", "en"),
    ],
)
def test_the_preferred_language_that_exists_is_picked(accepted: str, language: str) -> None:
    assert pick_language(accepted, {"en": 0, "de": 0}, "en") == language
