"""A Python client, synchronous and asynchronous from one source.

Needs httpx only, and that only when it is used.

    Operations.predict(...)  --HttpRequest, Pause-->  Client (httpx.Client) or AsyncClient (httpx.AsyncClient)
          ^                                                |
          +------------------ HttpResponse ----------------+      what it returns is the result

An operation is a generator: it yields the requests to send and the pauses between attempts, and
receives the responses, so it does not know how to wait. Both clients only run operations.
"""

from online.client.asynchronous import AsyncClient
from online.client.operations import ClientError
from online.client.synchronous import Client
from online.client.types import (
    ClassInfo,
    ErasureResult,
    ErasureStatus,
    ExportedFile,
    FeedbackDetails,
    FeedbackStatus,
    ModelStatus,
    Prediction,
    PredictResponse,
    RankedReply,
    Receipt,
    ReplyInfo,
    ReplyRef,
    RollbackResult,
    VersionInfo,
)

__all__ = [
    "AsyncClient",
    "ClassInfo",
    "Client",
    "ClientError",
    "ErasureResult",
    "ErasureStatus",
    "ExportedFile",
    "FeedbackDetails",
    "FeedbackStatus",
    "ModelStatus",
    "PredictResponse",
    "Prediction",
    "RankedReply",
    "Receipt",
    "ReplyInfo",
    "ReplyRef",
    "RollbackResult",
    "VersionInfo",
]
