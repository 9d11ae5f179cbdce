"""`online doctor`: what is wrong with a service and its replicas, and what to do."""

import json
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import typer

from online.cli.options import ConfigOption, JsonOption, SetOption, StateOption, StoreOption, StreamOption
from online.cli.state import load_settings
from online.errors import SetupError, Unavailable

if TYPE_CHECKING:
    from online.plugins.cluster.doctor.findings import CheckFinding
    from online.plugins.cluster.schemas import ClusterAnswer
    from online.settings import Settings


def doctor(
    state: StateOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    stream: StreamOption = None,
    set: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check the settings, the state folder, the store, Redis, the keys and the replicas, and say what to do.

    Each line is ok, a warning or a problem. The exit status is 1 if there is a problem, otherwise 0. Nothing is changed, and a service may
    run meanwhile.

    \b
    Examples:
      online doctor
      online doctor --store postgresql+psycopg://online@db.example.com/online --json
    """
    findings = [*examine(partial(load_settings, config, set, state=state, store=store, stream=stream))]
    if as_json:
        typer.echo(json.dumps({"findings": [each._asdict() for each in findings]}, indent=1))
    else:
        typer.echo("\n".join(describe(findings)))
    if any(each.level == "problem" for each in findings):
        raise typer.Exit(1)


def examine(load: "partial[Settings]") -> "Iterator[CheckFinding]":
    """Yield every finding, each when it is known. load: returns the settings, or raises SetupError."""
    from online.plugins.cluster.doctor.findings import problem
    from online.plugins.cluster.doctor.machine import check_live_files, check_settings, check_state
    from online.plugins.cluster.doctor.replicas import check_replicas, check_urls
    from online.plugins.cluster.doctor.services import check_keys, check_store, check_stream
    from online.plugins.cluster.status import read_settings

    try:
        settings = load()
    except SetupError as error:
        yield problem("settings", str(error), "correct this setting; `online config` shows where each comes from")
        return
    yield from check_settings(settings)
    yield from check_state(settings)
    yield from check_store(settings)
    yield from check_stream(settings)
    try:
        answer = read_settings(settings)
    except (SetupError, Unavailable):  # without a store that can be read there is nothing to compare with: said above
        return
    yield from check_keys(settings, sum(each.is_present for each in answer.replicas))
    yield from check_live_files(settings)
    yield from check_replicas(answer)
    yield from check_urls(answer, find_own(settings, answer))


def find_own(settings: "Settings", answer: "ClusterAnswer") -> str | None:
    """Return the replica whose state folder these settings name; None if it is not one of them."""
    try:
        own = (settings.state / "replica").read_text()
    except OSError:
        return None
    return own if any(each.id == own for each in answer.replicas) else None


def describe(findings: "list[CheckFinding]") -> Iterator[str]:
    """Yield the findings in lines, and how many there are."""
    width = max(len(each.subject) for each in findings)
    for each in findings:
        yield f"{each.level:<7}  {each.subject:<{width}}  {each.text}"
        if each.remedy:
            yield f"{'':<7}  {'':<{width}}  -> {each.remedy}"
    problems, warnings = (sum(each.level == level for each in findings) for level in ("problem", "warning"))
    yield f"{problems} problems, {warnings} warnings, {len(findings) - problems - warnings} checks are well"
