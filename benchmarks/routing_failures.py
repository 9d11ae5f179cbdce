"""What callers get when a route fails, of our router and of LiteLLM's proxy, alone and with a good route beside it."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import httpx
import orjson

from benchmarks.routing_systems import ALONE, FAILURES, SECOND, System

PATIENCE_S = 30.0


def tabulate_failures(systems: Sequence[System], times: int) -> list[list[str]]:
    """Return a row for each failure: whole and streamed answers of each system, alone and with a second route.

    times: requests of each case; later ones may profit from what the first showed. All models are asked at once.
    """
    cases = [(system, f"{failure}-{kind}") for failure in FAILURES for system in systems for kind in (ALONE, SECOND)]
    with ThreadPoolExecutor(len(cases)) as pool:
        streams = list(pool.map(lambda case: describe_case(case[0], case[1], True, times), cases))
        wholes = list(pool.map(lambda case: describe_case(case[0], case[1], False, times), cases))
    rows, width = [], len(cases) // len(FAILURES)
    for place, failure in enumerate(FAILURES):
        cells = slice(place * width, (place + 1) * width)
        rows += [[f"{failure}, whole", *wholes[cells]], [f"{failure}, stream", *streams[cells]]]
    return rows


def list_columns(systems: Sequence[System]) -> list[str]:
    """Return the columns of that table."""
    names = {ALONE: "alone", SECOND: "and a good route"}
    return ["the route is", *(f"{system.name}, {names[kind]}" for system in systems for kind in (ALONE, SECOND))]


def describe_case(system: System, model: str, is_streamed: bool, times: int) -> str:
    """Return what arrived, and after how many seconds; both of the last request where they differ."""
    asked = [ask(system, model, is_streamed) for _ in range(times)]
    (first, first_s), (last, last_s) = asked[0], asked[-1]
    seconds = f"{first_s:.2f} s, then {last_s:.2f} s" if abs(first_s - last_s) > 0.1 else f"{first_s:.2f} s"
    return f"{first if first == last else f'{first}; then {last}'} ({seconds})"


def ask(system: System, model: str, is_streamed: bool) -> tuple[str, float]:
    """Return what a request gets, and the seconds until it is complete."""
    body = {"model": model, "messages": [{"role": "user", "content": "Why?"}]} | (
        {"stream": True} if is_streamed else {}
    )
    headers = {"Authorization": f"Bearer {system.key}"} if system.key else {}
    started = time.perf_counter()
    data, status, end = b"", 0, ""
    try:
        url = f"http://127.0.0.1:{system.port}{system.path}"
        with httpx.stream("POST", url, content=orjson.dumps(body), headers=headers, timeout=PATIENCE_S) as answer:
            status = answer.status_code
            for part in answer.iter_bytes():
                data += part
    except httpx.TimeoutException:
        end = f", nothing more for {PATIENCE_S:.0f} s"
    except httpx.TransportError:
        end = ", connection cut"
    return f"{status} {describe_body(data, is_streamed and status == 200)}{end}", time.perf_counter() - started


def describe_body(data: bytes, is_stream: bool) -> str:
    """Return in words what a body has."""
    if not is_stream:
        try:
            content = orjson.loads(data)
        except orjson.JSONDecodeError:
            return "not JSON" if data else "nothing"
        return "answer" if content.get("choices") else "error" if "error" in content else "other JSON"
    events = [line.removeprefix(b"data: ") for line in data.splitlines() if line.startswith(b"data: ")]
    parsed = [orjson.loads(each) for each in events if each.startswith(b"{")]
    words = sum(bool(choice["delta"].get("content")) for each in parsed for choice in each.get("choices", []))
    error = ", error" if any("error" in each for each in parsed) else ""
    return f"{words} chunks{error}{', [DONE]' if b'[DONE]' in events else ''}"
