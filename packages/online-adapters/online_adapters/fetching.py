"""The kept answers of a router, written as lines to learn from: GET /v1/models/{model}/answers, page by page."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from online.errors import BadInput, Unavailable

PAGE = 1_000
TIMEOUT_S = 60.0


def iterate_answers(url: str, model: str, key: str = "") -> Iterator[dict[str, Any]]:
    """Yield the answers, the oldest first. Raises BadInput where the service refuses, and Unavailable without an answer."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    after = ""
    with httpx.Client(base_url=url, headers=headers, timeout=TIMEOUT_S) as http:
        while True:
            parameters = {"limit": str(PAGE)} | ({"after": after} if after else {})
            try:
                response = http.get(f"/v1/models/{model}/answers", params=parameters)
                page = response.json()
            except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
                raise Unavailable(f"{url} gave no page of answers ({type(error).__name__}); check --url") from None
            if response.status_code != 200:
                reason = page.get("error") if isinstance(page, dict) else page
                raise BadInput(f"{url} refuses the answers of {model!r} ({response.status_code}): {reason}")
            yield from page["answers"]
            after = page["next"]
            if not after:
                return


def fetch_answers(url: str, model: str, out: Path, key: str = "") -> int:
    """Write the answers to a file, all of them or none; return their number. Raises BadInput, Unavailable."""
    temporary = out.with_name(f".{out.name}-{os.getpid()}")
    count = 0
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            for each in iterate_answers(url, model, key):
                file.write(json.dumps(each, ensure_ascii=False) + "\n")
                count += 1
        os.replace(temporary, out)
    finally:
        temporary.unlink(missing_ok=True)
    return count
