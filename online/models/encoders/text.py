"""Encodes texts with all-MiniLM-L6-v2, through ONNX Runtime.

    instance -> text -> tokens -> unit vector [384] -> int8 [384]      a fixed network, quantised once

With a `language`, the text is read as people type in a chat: a follow-up together with the question before it
(`follow_ups`), and with its spelling corrected (`spelling`). These are features of their own epoch.

The encoder runs once, in the service; its bytes are logged with the prediction, and the learner
reads those.
"""

import hashlib
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby, islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from online.errors import TextTooLong
from online.models.encoders import minilm
from online.models.encoders.follow_ups import read_text
from online.models.encoders.minilm import WIDTH, write_atomically
from online.models.encoders.spelling import SPELLING, WORDS_SHA256
from online.models.encoders.values import format_value
from online.schemas.json_values import JSONObject

TEXT_WIDTH = minilm.WIDTH
TEXT_SCALE = 512  # int8 = clip(rint(512 * unit vector)): CLINC150 accuracy is the same as with floats
CACHED_TEXTS = 4_096
READING_VERSION = 2  # of how typed texts are read: increase it when a text is read differently
BATCH_TOKENS = 512  # of the texts that are encoded together
ROUNDING_DOUBT = 1e-4  # of a scaled number; the sums of a batch moved 500 texts by a quarter of that at most


# Keeps the features of texts on disk, so that a replay of the same texts does not encode them again.
#
#     text --sha256--> FeatureCache --> int8 [384]      one file for each encoder: records of equal length
#
# A record is the hash of a text, its features, and a checksum of both. The texts themselves are not kept. A record that
# is damaged or cut off is ignored, and the text encoded and appended again. Beyond `max_records` the oldest are dropped.

HASH_BYTES, CHECKSUM_BYTES = 32, 4
RECORD_BYTES = HASH_BYTES + WIDTH + CHECKSUM_BYTES
MAX_RECORDS = 250_000  # 105 MB


class FeatureCache:
    """The features of one encoder's texts. A folder that cannot be read or written is as good as an empty one."""

    def __init__(self, folder: Path, epoch: str, max_records: int = MAX_RECORDS) -> None:
        """epoch: of the encoder, which names the file."""
        self.path, self.max_records = folder / f"texts-{epoch}.features", max_records
        self.known: dict[bytes, bytes] = {}
        data = self._read()
        self.known.update(parse_records(data))
        if len(self.known) * RECORD_BYTES != len(data) or len(self.known) > max_records:
            self._rewrite()

    def find(self, text: str) -> bytes | None:
        """Return the features of a text; None if they are not kept."""
        return self.known.get(hash_text(text))

    def keep(self, features: Mapping[str, bytes]) -> None:
        """Append the features of texts."""
        added = {hash_text(text): data for text, data in features.items()}
        self.known.update(added)
        if len(self.known) > self.max_records:
            self._rewrite()
            return
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.path, "ab", buffering=0) as file:  # one write: other processes append, too
                file.write(b"".join(build_record(*each) for each in added.items()))

    def _read(self) -> bytes:
        with suppress(OSError):
            return self.path.read_bytes()
        return b""

    def _rewrite(self) -> None:
        """Write the newest records, at most half of what may be kept if it was too much."""
        most = self.max_records if len(self.known) <= self.max_records else self.max_records // 2
        self.known = dict(islice(self.known.items(), max(0, len(self.known) - most), None))
        with suppress(OSError):
            write_atomically(self.path, b"".join(build_record(*each) for each in self.known.items()))


def hash_text(text: str) -> bytes:
    """Return the key of a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def build_record(key: bytes, features: bytes) -> bytes:
    """Return the bytes of an entry, with a checksum."""
    body = key + features
    return body + zlib.crc32(body).to_bytes(CHECKSUM_BYTES, "little")


def parse_records(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the records that are whole."""
    for start in range(0, len(data) - RECORD_BYTES + 1, RECORD_BYTES):
        record = data[start : start + RECORD_BYTES]
        body = record[:-CHECKSUM_BYTES]
        if zlib.crc32(body).to_bytes(CHECKSUM_BYTES, "little") == record[-CHECKSUM_BYTES:]:
            yield body[:HASH_BYTES], body[HASH_BYTES:]


class TextEncoder:
    """Encodes texts of the same number of tokens together, each as if it were alone.

    A batch sums in another order, which changes the last digits of a vector, and one int8 number in 500 texts where
    it falls between two of them. Such texts are encoded alone, so that features never depend on other texts.
    """

    epoch = f"minilm-{minilm.WEIGHTS_SHA256[:8]}-int8x{TEXT_SCALE}-{minilm.GRAPH_VERSION}"
    is_slow = True
    quick_chars = 0

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

    def encode(self, instances: Sequence[object]) -> list[bytes]:
        """Return the features of each text, from the cache where it has them. Raises BadInput that names the text."""
        texts = [self._text(instance, place) for place, instance in enumerate(instances)]
        features = self._find(texts)
        missing = [text for text in dict.fromkeys(texts) if text not in features]
        if missing:
            added = self._encode_together(missing)
            self._remember(added)
            features |= added
        return [features[text] for text in texts]

    def _text(self, instance: object, place: int) -> str:
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


def with_encoder(options: Mapping[str, object], encoder: str) -> JSONObject:
    """Return a model's options with the name of its tuned encoder; "" stands for the shipped one."""
    return {**options, "encoder": encoder} if encoder else dict(options)


def extract_text(instance: object) -> str | None:
    """Return the text of an instance, or of its member "text"; None if there is none."""
    text = instance.get("text") if isinstance(instance, dict) else instance
    return text if isinstance(text, str) and text.strip() else None


def require_text(
    instance: object, place: int, max_chars: int, read: Callable[[object], str | None] = extract_text
) -> str:
    """Return the text of the instance at a place of a request. Raises ValueError if there is none, TextTooLong."""
    text = read(instance)
    if text is None:
        raise ValueError(f'instance {place} must be a text or {{"text": ...}}, not {format_value(instance)}')
    if len(text) > max_chars:
        raise TextTooLong(f"instance {place}", len(text), max_chars)
    return text


def quantise(unit: NDArray[np.float32]) -> NDArray[np.int8]:
    """Return unit vectors as int8 features."""
    return np.clip(np.rint(TEXT_SCALE * unit), -127, 127).astype(np.int8)


def text_epoch(tuned: str, language: str = "") -> str:
    """Return the epoch of the encoder with this sha256, "" for the shipped one, that reads texts typed in this language."""
    epoch = f"minilm-{tuned[:16]}-int8x{TEXT_SCALE}-{minilm.GRAPH_VERSION}" if tuned else TextEncoder.epoch
    return f"{epoch}-{language}{READING_VERSION}-{WORDS_SHA256[:8]}" if language else epoch
