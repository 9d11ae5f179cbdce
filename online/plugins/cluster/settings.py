"""The settings of a cluster: several replicas of the service that share a store, and each keep a state folder."""

from pydantic import BaseModel, Field


class ClusterSettings(BaseModel):
    """The settings of a cluster."""

    replica_url: str | None = Field(
        None,
        pattern=r"^https?://[^\s/?#@]+(/[^\s?#]*)?$",
        description="URL at which other replicas reach this one. Default: http:// (https:// with tls_certificate), the host that it "
        "listens on, or the name of this machine if it listens on all addresses, and the port.",
    )
    snapshot_url: str | None = Field(
        None,
        pattern=r"^[a-z][a-z0-9+.-]*://\S+$",
        description="URL of a folder or bucket that keeps copies of durable versions, such as s3://bucket/prefix, gs://, az:// or "
        "file:///. It needs 'online[cluster]' and the library of the protocol. Default: none.",
    )
