"""`online status`: what answers, and the replicas with what each has learned."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import typer

from online.cli.options import ConfigOption, JsonOption, SetOption, StateOption, StoreOption
from online.cli.state import load_settings
from online.cli.tables import align
from online.errors import SetupError

if TYPE_CHECKING:
    from online.plugins.cluster.schemas import ClusterAnswer, ClusterModel, ReplicaModel, ReplicaState
    from online.settings import Settings

MODEL_COLUMNS = ("model", "log", "answers", "learned until", "state", "published by")
REPLICA_COLUMNS = ("replica", "seen", "model", "version", "lag", "state", "agrees", "learner")
SERVICE_COLUMNS = ("replica", "url", "release", "free disk", "clock", "learner process")
AGREES = {True: "yes", False: "NO", None: "-"}


def status(
    state: StateOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    set: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the replicas of a service: when each was seen, how many events it is behind, what it answers from, and its hash.

    All is read from the store, so that it works on any machine that reaches the store, also while no replica runs. Nothing is changed.
    `online doctor` says what is wrong, and what to do.

    \b
    Examples:
      online status
      online status --store postgresql+psycopg://online@db.example.com/online --json
    """
    answer = look_up(load_settings(config, set, state=state, store=store))
    typer.echo(answer.model_dump_json(indent=1) if as_json else "\n".join(describe(answer)))


def look_up(settings: "Settings") -> "ClusterAnswer":
    """Return the state of the cluster. Raises SetupError where there is no store, and Unavailable."""
    from online.plugins.cluster.status import read_settings
    from online.store.database.engine import is_sqlite

    if is_sqlite(settings.store_url) and not settings.state.is_dir():
        raise SetupError(
            f"there is no state folder {settings.state}; name the right one with --state, or the store with --store"
        )
    return read_settings(settings)


def describe(answer: "ClusterAnswer") -> Iterator[str]:
    """Yield the answer in lines, for people: one line for a service on SQLite."""
    if not answer.is_shared:
        yield f"a single service on {answer.store}: {'; '.join(map(describe_single, answer.models))}"
        return
    present = sum(each.is_present for each in answer.replicas)
    yield f"{answer.store}: {present} of {len(answer.replicas)} replicas present"
    yield ""
    yield from align(MODEL_COLUMNS, [*map(model_cells, answer.models)])
    if not answer.replicas:
        yield ""
        yield "no replica has served this store in the last 7 days"
        return
    yield ""
    yield from align(REPLICA_COLUMNS, [cells for each in answer.replicas for cells in replica_cells(each)])
    yield ""
    yield from align(SERVICE_COLUMNS, [*map(service_cells, answer.replicas)])


def describe_single(model: "ClusterModel") -> str:
    """Return one model of a service on SQLite in a few words."""
    frozen = ", frozen" if model.is_frozen else ""
    if model.version == "0":
        return f"{model.model} has no version yet, log at {model.head:,}{frozen}"
    return (
        f"{model.model} answers from version {model.version}, learned until {model.learned_until:,} of {model.head:,}, "
        f"state {model.state_sha256[:12]}{frozen}"
    )


def model_cells(model: "ClusterModel") -> Sequence[str]:
    """Return the cells of a model, as the store has it."""
    frozen = " (frozen)" if model.is_frozen else ""
    return (
        model.model,
        f"{model.head:,}",
        f"version {model.version}{frozen}",
        f"{model.learned_until:,}",
        model.state_sha256[:12],
        model.published_by,
    )


def replica_cells(replica: "ReplicaState") -> Iterator[Sequence[str]]:
    """Yield the cells of each model of a replica."""
    seen = describe_seen(replica)
    if not replica.models:
        yield (replica.id, seen, "", "", "", "", "", "")
    for each in replica.models:
        yield (replica.id, seen, *replica_model_cells(each, replica.is_present))


def replica_model_cells(model: "ReplicaModel", is_present: bool) -> Sequence[str]:
    """Return the cells of one model of a replica. An absent one no longer learns; what it had learned stays shown."""
    hash, agrees = model.state_sha256[:12], AGREES[model.agrees]
    return model.model, model.version, f"{model.lag:,}", hash, agrees, model.role if is_present else "-"


def describe_seen(replica: "ReplicaState") -> str:
    """Return when a replica was last seen, and whether it counts as absent."""
    return f"{replica.seen_s:.1f} s ago" if replica.is_present else f"ABSENT for {describe_duration(replica.seen_s)}"


def describe_duration(seconds: float) -> str:
    """Return a duration in the largest unit of which there is at least one."""
    for unit, length in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} s"


def service_cells(replica: "ReplicaState") -> Sequence[str]:
    """Return the cells of what a replica says of its process and its machine."""
    disk = "" if replica.free_disk_bytes is None else f"{replica.free_disk_bytes / 1e9:.1f} GB"
    clock = "" if replica.clock_difference_s is None else f"{replica.clock_difference_s:+.3f} s"
    return replica.id, replica.url, replica.release, disk, clock, replica.learner
