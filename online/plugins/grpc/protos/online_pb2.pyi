from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Item(_message.Message):
    __slots__ = ("id", "prediction_id", "input", "reward", "label", "correction", "user", "reason", "comment", "scope")
    ID_FIELD_NUMBER: _ClassVar[int]
    PREDICTION_ID_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    REWARD_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    CORRECTION_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    COMMENT_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    id: str
    prediction_id: str
    input: _struct_pb2.Value
    reward: float
    label: str
    correction: str
    user: str
    reason: str
    comment: str
    scope: str
    def __init__(self, id: _Optional[str] = ..., prediction_id: _Optional[str] = ..., input: _Optional[_Union[_struct_pb2.Value, _Mapping]] = ..., reward: _Optional[float] = ..., label: _Optional[str] = ..., correction: _Optional[str] = ..., user: _Optional[str] = ..., reason: _Optional[str] = ..., comment: _Optional[str] = ..., scope: _Optional[str] = ...) -> None: ...

class GiveRequest(_message.Message):
    __slots__ = ("model", "feedback")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    FEEDBACK_FIELD_NUMBER: _ClassVar[int]
    model: str
    feedback: _containers.RepeatedCompositeFieldContainer[Item]
    def __init__(self, model: _Optional[str] = ..., feedback: _Optional[_Iterable[_Union[Item, _Mapping]]] = ...) -> None: ...

class Receipt(_message.Message):
    __slots__ = ("id", "offset", "status")
    ID_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    id: str
    offset: int
    status: str
    def __init__(self, id: _Optional[str] = ..., offset: _Optional[int] = ..., status: _Optional[str] = ...) -> None: ...

class GiveResponse(_message.Message):
    __slots__ = ("receipts",)
    RECEIPTS_FIELD_NUMBER: _ClassVar[int]
    receipts: _containers.RepeatedCompositeFieldContainer[Receipt]
    def __init__(self, receipts: _Optional[_Iterable[_Union[Receipt, _Mapping]]] = ...) -> None: ...

class FeedbackRef(_message.Message):
    __slots__ = ("model", "id")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    model: str
    id: str
    def __init__(self, model: _Optional[str] = ..., id: _Optional[str] = ...) -> None: ...

class Fate(_message.Message):
    __slots__ = ("id", "offset", "status", "version", "reason", "freshness_ms")
    ID_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    FRESHNESS_MS_FIELD_NUMBER: _ClassVar[int]
    id: str
    offset: int
    status: str
    version: int
    reason: str
    freshness_ms: float
    def __init__(self, id: _Optional[str] = ..., offset: _Optional[int] = ..., status: _Optional[str] = ..., version: _Optional[int] = ..., reason: _Optional[str] = ..., freshness_ms: _Optional[float] = ...) -> None: ...

class WaitLearnedRequest(_message.Message):
    __slots__ = ("model", "offset")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    model: str
    offset: int
    def __init__(self, model: _Optional[str] = ..., offset: _Optional[int] = ...) -> None: ...

class Learned(_message.Message):
    __slots__ = ("version", "learned_until")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    LEARNED_UNTIL_FIELD_NUMBER: _ClassVar[int]
    version: int
    learned_until: int
    def __init__(self, version: _Optional[int] = ..., learned_until: _Optional[int] = ...) -> None: ...
