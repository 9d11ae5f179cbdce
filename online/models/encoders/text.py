"""Encodes texts with all-MiniLM-L6-v2, through ONNX Runtime.

    instance -> text -> tokens -> unit vector [384] -> int8 [384]      a fixed network, quantised once

With a `language`, the text is read as people type in a chat: a follow-up together with the question before it
(`follow_ups`), and with its spelling corrected (`spelling`). These are features of their own epoch.

The encoder runs once, in the service; its bytes are logged with the prediction, and the learner
reads those.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from online.errors import TextTooLong
from online.models.encoders import minilm
from online.models.encoders.feature_cache import FeatureCache
from online.models.encoders.follow_ups import read_text
from online.models.encoders.spelling import SPELLING, WORDS_SHA256
from online.models.encoders.values import format_value

TEXT_WIDTH = minilm.WIDTH
TEXT_SCALE = 512  # int8 = clip(rint(512 * unit vector)): CLINC150 accuracy is the same as with floats
CACHED_TEXTS = 4_096
READING_VERSION = 2  # of how typed texts are read: increase it when a text is read differently
BATCH_TOKENS = 512  # of the texts that are encoded together
ROUNDING_DOUBT = 1e-4  # of a scaled number; the sums of a batch moved 500 texts by a quarter of that at most


class TextEncoder:
    """Encodes texts of the same number of tokens together, each as if it were alone.

    A batch sums in another order, which changes the last digits of a vector, and one int8 number in 500 texts where
    it falls between two of them. Such texts are encoded alone, so that features never depend on other texts.
    """

    epoch = f"minilm-{minilm.WEIGHTS_SHA256[:8]}-int8x{TEXT_SCALE}-{minilm.GRAPH_VERSION}"
    is_slow = True

    def __init__(
        self,
        cache: Path,
        threads: int = 2,
        max_chars: int = 8_000,
        tuned: Path | None = None,
        keeps: bool = False,
        language: str = "",
    ) -> None:
        """tuned: a file of tuned tensors named by its sha256, whose features have their own epoch.

        keeps: whether features are kept on disk, in the folder `cache`. language: in which people type, "en"; texts are
        encoded as they come if it is empty.
        """
        self.epoch = text_epoch(tuned.stem if tuned is not None else "", language)
        self.max_chars, self.language = max_chars, language
        self._tokenizer = minilm.tokenizer()
        self._session = minilm.open_graph(minilm.onnx_file(cache, tuned), threads)
        self._known: OrderedDict[str, bytes] = OrderedDict()
        self._kept = FeatureCache(cache, self.epoch) if keeps else None
        self._lock = threading.Lock()

    def encode(self, instances: Sequence[Any]) -> list[bytes]:
        texts = [self._text(instance, place) for place, instance in enumerate(instances)]
        features = self._find(texts)
        missing = [text for text in dict.fromkeys(texts) if text not in features]
        if missing:
            added = self._encode_together(missing)
            self._remember(added)
            features |= added
        return [features[text] for text in texts]

    def _text(self, instance: Any, place: int) -> str:
        read = read_text if self.language else extract_text
        words = " ".join(require_text(instance, place, self.max_chars, read).split())
        return SPELLING.correct(words) if self.language else words

    def _find(self, texts: Sequence[str]) -> dict[str, bytes]:
        """Return the features that are known, in memory or on disk."""
        found = dict[str, bytes]()
        with self._lock:
            for text in texts:
                if text in self._known:
                    self._known.move_to_end(text)
                    found[text] = self._known[text]
                elif self._kept is not None and (kept := self._kept.find(text)) is not None:
                    found[text] = kept
        return found

    def _remember(self, features: Mapping[str, bytes]) -> None:
        with self._lock:
            self._known.update(features)
            while len(self._known) > CACHED_TEXTS:
                self._known.popitem(last=False)
            if self._kept is not None:
                self._kept.keep(features)

    def _encode_together(self, texts: Sequence[str]) -> dict[str, bytes]:
        """Encode texts in batches of the same number of tokens, the longest first."""
        ids = [encoding.ids for encoding in self._tokenizer.encode_batch(texts)]
        order, found = sorted(range(len(texts)), key=lambda place: -len(ids[place])), dict[str, bytes]()
        for length, same in groupby(order, key=lambda place: len(ids[place])):
            places, size = [*same], max(1, BATCH_TOKENS // length)
            for start in range(0, len(places), size):
                part = places[start : start + size]
                found |= zip((texts[place] for place in part), self._run([ids[place] for place in part]), strict=True)
        return found

    def _run(self, ids_BT: list[list[int]]) -> list[bytes]:
        vectors_BW: NDArray[np.float32] = self._session.run(None, {"ids": np.array(ids_BT, np.int64)})[0]
        if len(ids_BT) > 1:
            scaled_BW = TEXT_SCALE * vectors_BW
            gaps_BW = np.abs(np.abs(scaled_BW - np.rint(scaled_BW)) - 0.5)  # to the next place where rounding turns
            for place in np.flatnonzero((gaps_BW < ROUNDING_DOUBT).any(1)):
                vectors_BW[place] = self._session.run(None, {"ids": np.array([ids_BT[place]], np.int64)})[0][0]
        return [row.tobytes() for row in quantise(vectors_BW)]


def with_encoder(options: Mapping[str, Any], encoder: str) -> dict[str, Any]:
    """A model's options with the name of its tuned encoder; "" stands for the shipped one."""
    return {**options, "encoder": encoder} if encoder else dict(options)


def extract_text(instance: Any) -> str | None:
    """The text of an instance, or of its member "text"; None if there is none."""
    text = instance.get("text") if isinstance(instance, dict) else instance
    return text if isinstance(text, str) and text.strip() else None


def require_text(instance: Any, place: int, max_chars: int, read: Callable[[Any], str | None] = extract_text) -> str:
    """The text of the instance at a place of a request. Raises ValueError if there is none, TextTooLong."""
    text = read(instance)
    if text is None:
        raise ValueError(f'instance {place} must be a text or {{"text": ...}}, not {format_value(instance)}')
    if len(text) > max_chars:
        raise TextTooLong(f"instance {place}", len(text), max_chars)
    return text


def quantise(unit: NDArray[np.float32]) -> NDArray[np.int8]:
    """Unit vectors as int8 features."""
    return np.clip(np.rint(TEXT_SCALE * unit), -127, 127).astype(np.int8)


def text_epoch(tuned: str, language: str = "") -> str:
    """The epoch of the encoder with this sha256, "" for the shipped one, that reads texts typed in this language."""
    epoch = f"minilm-{tuned[:16]}-int8x{TEXT_SCALE}-{minilm.GRAPH_VERSION}" if tuned else TextEncoder.epoch
    return f"{epoch}-{language}{READING_VERSION}-{WORDS_SHA256[:8]}" if language else epoch
