"""Encodes texts with all-MiniLM-L6-v2, through ONNX Runtime.

    text -> tokens -> unit vector [384] -> int8 [384]      a fixed network, quantised once

The encoder runs once, in the service; its bytes are logged with the prediction, and the learner
reads those.
"""

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from online.errors import TooLarge
from online.models.encoders import minilm
from online.models.encoders.values import format_value

TEXT_WIDTH = minilm.WIDTH
TEXT_SCALE = 512  # int8 = clip(rint(512 * unit vector)): CLINC150 accuracy is the same as with floats
CACHED_TEXTS = 4_096


class TextEncoder:
    """Encodes one text at a time, so that its features never depend on other texts of a batch."""

    epoch = f"minilm-{minilm.WEIGHTS_SHA256[:8]}-int8x{TEXT_SCALE}-{minilm.GRAPH_VERSION}"

    def __init__(self, cache: Path, threads: int = 2, max_chars: int = 8_000, tuned: Path | None = None) -> None:
        """tuned: a file of tuned tensors named by its sha256, whose features have their own epoch."""
        import onnxruntime

        if tuned is not None:
            self.epoch = text_epoch(tuned.stem)
        self.max_chars = max_chars
        self._tokenizer = minilm.tokenizer()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.add_session_config_entry(
            "session.intra_op.allow_spinning", "0"
        )  # spinning would take the learner's CPU time
        path = minilm.onnx_file(cache, tuned)
        self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self._known: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def encode(self, instances: Sequence[Any]) -> list[bytes]:
        texts = [self._text(instance, place) for place, instance in enumerate(instances)]
        return [self._features(text) for text in texts]

    def _text(self, instance: Any, place: int) -> str:
        text = extract_text(instance)
        if text is None:
            raise ValueError(f'instance {place} must be a text or {{"text": ...}}, not {format_value(instance)}')
        if len(text) > self.max_chars:
            raise TooLarge(
                f"instance {place} has {len(text)} characters; shorten it to at most {self.max_chars} (max_text_chars)"
            )
        return " ".join(text.split())

    def _features(self, text: str) -> bytes:
        with self._lock:
            if text in self._known:
                self._known.move_to_end(text)
                return self._known[text]
        ids = np.array([self._tokenizer.encode(text).ids], np.int64)
        vector = self._session.run(None, {"ids": ids})[0][0]
        features = quantise(vector).tobytes()
        with self._lock:
            self._known[text] = features
            while len(self._known) > CACHED_TEXTS:
                self._known.popitem(last=False)
        return features


def with_encoder(options: Mapping[str, Any], encoder: str) -> dict[str, Any]:
    """A model's options with the name of its tuned encoder; "" stands for the shipped one."""
    return {**options, "encoder": encoder} if encoder else dict(options)


def extract_text(instance: Any) -> str | None:
    """The text of an instance, or of its member "text"; None if there is none."""
    text = instance.get("text") if isinstance(instance, dict) else instance
    return text if isinstance(text, str) and text.strip() else None


def quantise(unit: NDArray[np.float32]) -> NDArray[np.int8]:
    """Unit vectors as int8 features."""
    return np.clip(np.rint(TEXT_SCALE * unit), -127, 127).astype(np.int8)


def text_epoch(tuned: str) -> str:
    """The epoch of the encoder with this sha256; "" stands for the shipped one."""
    return f"minilm-{tuned[:16]}-int8x{TEXT_SCALE}-{minilm.GRAPH_VERSION}" if tuned else TextEncoder.epoch
