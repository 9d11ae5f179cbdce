"""Read the state of a cluster from its store, which needs no replica that runs.

store: heads of the logs, publications, what answers ──┐
store: the reports of the replicas ────────────────────┴─> ClusterAnswer --> online status, GET /v1/cluster, online doctor
a store on SQLite: what answers is in the folder of the snapshots
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from functools import partial

from sqlalchemy import Connection

from online.errors import CorruptSnapshot, NotFound
from online.plugins.cluster.schemas import (
    ClusterAnswer,
    ClusterModel,
    DivergenceDetails,
    ReplicaModel,
    ReplicaState,
    Role,
)
from online.schemas.json_values import JSON, JSONObject
from online.settings import Settings
from online.snapshots import Snapshots
from online.snapshots.manifest import Manifest
from online.state.workspace import snapshots_in
from online.store import Store
from online.store.database.engine import without_password
from online.store.database.inspection import check_current
from online.store.events import head_of
from online.store.leases import list_holders
from online.store.publications import StoredPublications, load_revisions, load_serving
from online.store.replicas import KnownReplica, list_replicas

FindSnapshots = Callable[[str], Snapshots | None]  # None: nothing was published


def read_status(store: Store, names: Iterable[str], find_snapshots: FindSnapshots) -> ClusterAnswer:
    """Return the state of a cluster, at one moment of the store. names: models of the settings. Raises Unavailable."""
    read = read_cluster if store.is_shared else partial(read_single, find_snapshots=find_snapshots)
    models, replicas = store.read(lambda connection: read(connection, names=[*names]))
    return ClusterAnswer(is_shared=store.is_shared, store=without_password(store.url), models=models, replicas=replicas)


def read_cluster(connection: Connection, names: Iterable[str]) -> tuple[list[ClusterModel], list[ReplicaState]]:
    """Return the models of a store that replicas share, and the replicas.

    A model of the settings without events counts only if the store knows no other: `online status` may run where nobody has configured any.
    """
    known = list_replicas(connection)
    found = {*load_revisions(connection), *(name for each in known for name in models_of(each))}
    found |= {name for name in names if head_of(connection, name)}
    models = [read_model(connection, name) for name in sorted(found or names)]
    heads = {each.model: each.head for each in models}
    return models, [describe_replica(connection, each, heads) for each in known]


def read_single(
    connection: Connection, names: Iterable[str], find_snapshots: FindSnapshots
) -> tuple[list[ClusterModel], list[ReplicaState]]:
    """Return the models of a store on SQLite. It has no replicas."""
    return [describe_folder(name, head_of(connection, name), find_snapshots(name)) for name in names], []


def read_model(connection: Connection, model: str) -> ClusterModel:
    """Return what the store says of one model."""
    state, publications = load_serving(connection, model), StoredPublications(connection, model)
    live = None if state is None else publications.find(state.live)
    return ClusterModel(
        model=model,
        head=head_of(connection, model),
        version="0" if live is None else str(live.version),
        learned_until=0 if live is None else live.learned_until,
        state_sha256="" if live is None else live.state_sha256,
        published_by="" if live is None else live.replica,
        is_frozen=state is not None and state.frozen is not None,
    )


def read_settings(settings: Settings) -> ClusterAnswer:
    """Return the state of the cluster that settings name, without a change of anything. Raises SetupError and Unavailable."""
    check_current(settings.store_url, allow_newer=True)

    def find_snapshots(model: str) -> Snapshots | None:
        is_there = (settings.state / "snapshots" / model).is_dir()
        return snapshots_in(settings, model) if is_there else None

    with closing(Store(settings.store_url)) as store:
        return read_status(store, [each.name for each in settings.models], find_snapshots)


def describe_folder(model: str, head: int, snapshots: Snapshots | None) -> ClusterModel:
    """Return what the folder of the snapshots says of one model."""
    manifest = None if snapshots is None else find_live(snapshots)
    return ClusterModel(
        model=model,
        head=head,
        version="0" if manifest is None else str(manifest.version),
        learned_until=0 if manifest is None else manifest.learned_until,
        state_sha256="" if manifest is None else manifest.state_sha256,
        published_by="",
        is_frozen=snapshots is not None and snapshots.control.frozen() is not None,
    )


def find_live(snapshots: Snapshots) -> Manifest | None:
    """Return the manifest of the live version; None if there is none, or it is damaged."""
    try:
        live = snapshots.folder.live()
        return None if live is None else snapshots.folder.manifest(live.version)
    except (CorruptSnapshot, NotFound):
        return None


def models_of(replica: KnownReplica) -> Mapping[str, JSONObject]:
    """Return what a replica reports of its models. That of an earlier release is left out."""
    models: JSON = replica.report.get("models", {})
    return {name: report for name, report in models.items() if isinstance(report, dict)}


def describe_replica(connection: Connection, replica: KnownReplica, heads: Mapping[str, int]) -> ReplicaState:
    """Return a replica with its models, compared with what the store says."""
    report, learner = replica.report, str(replica.report.get("learner", ""))
    models = [
        describe_model(connection, replica.id, learner, name, facts, heads[name])
        for name, facts in sorted(models_of(replica).items())
    ]
    return ReplicaState(
        id=replica.id,
        url=replica.url,
        is_present=replica.is_present,
        seen_s=round(replica.absent_s, 1),
        release=str(report.get("release", "")),
        learner=learner,
        free_disk_bytes=report.get("free_disk_bytes"),
        clock_difference_s=report.get("clock_difference_s"),
        signing_keys=str(report.get("signing_keys", "")),
        models=models,
    )


def describe_model(
    connection: Connection, replica: str, learner: str, model: str, facts: JSONObject, head: int
) -> ReplicaModel:
    """Return one model of a replica. facts: as the replica reports them."""
    version, state_sha256, diverged = facts["version"], facts["state_sha256"], facts["diverged"]
    published = StoredPublications(connection, model).find(version)
    holder = list_holders(connection).get(model)
    is_standby = holder is not None and holder != replica
    return ReplicaModel(
        model=model,
        version=str(version),
        learned_until=facts["learned_until"],
        lag=max(0, head - facts["learned_until"]),
        state_sha256=state_sha256,
        agrees=None if published is None or not state_sha256 else published.state_sha256 == state_sha256,
        role=find_role(learner, diverged is not None, is_standby),
        determinism_domain=facts["determinism_domain"],
        diverged=None if diverged is None else DivergenceDetails(**{**diverged, "version": str(diverged["version"])}),
    )


def find_role(learner: str, has_diverged: bool, is_standby: bool) -> Role:
    """Return what the learner of a replica does for a model. learner: the state of its process."""
    if has_diverged:
        return "diverged"
    if learner != "running":
        return "does not learn"
    return "stands by" if is_standby else "learns"
