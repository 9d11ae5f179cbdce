"""The state of a cluster: what answers, and the replicas with what each has learned."""

from typing import Literal

from pydantic import Field

from online.schemas.fields import Wire

Role = Literal["learns", "stands by", "diverged", "does not learn"]


class DivergenceDetails(Wire):
    """The place at which the state that a replica has learned differed from the published one."""

    version: str
    learned_until: int
    ours: str = Field(description="The sha256 of the state of this replica.")
    published: str = Field(description="The sha256 that was published for the same offset.")
    determinism_domain: str = Field(description="Of its learner; compare it with that of the other replicas.")


class ReplicaModel(Wire):
    """One model on one replica."""

    model: str
    version: str = Field(description="The version that answers there; 0: none yet.")
    learned_until: int
    lag: int = Field(description="Events of the log that it has not learned.")
    state_sha256: str = Field(description="Of the version that answers there; empty for none.")
    agrees: bool | None = Field(
        description="Whether this is the state that was published under this number. Null: none was, or it is forgotten."
    )
    role: Role
    determinism_domain: str = Field(
        description="The processor and the build on which the version was learned that answers there."
    )
    diverged: DivergenceDetails | None


class ReplicaState(Wire):
    """A replica, as it last reported to the store."""

    id: str
    url: str
    is_present: bool = Field(description="Whether it reported within the last 5 seconds.")
    seen_s: float = Field(description="How long ago it reported, in seconds of the clock of the store.")
    release: str = Field(description="The version of the software; empty where it did not say.")
    learner: str = Field(description="The state of its learner's process, as in /v1/status.")
    free_disk_bytes: int | None
    clock_difference_s: float | None = Field(description="Its clock minus that of the store.")
    signing_keys: str = Field(description="Names the set of its signing keys: replicas that share them have the same.")
    models: list[ReplicaModel]


class ClusterModel(Wire):
    """One model, as the store has it."""

    model: str
    head: int = Field(description="The last offset of the log.")
    version: str = Field(description="The version that answers; 0: none yet.")
    learned_until: int
    state_sha256: str
    published_by: str = Field(description="The replica whose learner was first; empty where it is not known.")
    is_frozen: bool


class ClusterAnswer(Wire):
    """The state of a cluster. A service on SQLite has no other replicas, and lists none."""

    is_shared: bool = Field(description="Whether other replicas may use the store too.")
    store: str = Field(description="Its URL without a password.")
    models: list[ClusterModel]
    replicas: list[ReplicaState]
