"""Text features without a network: words, pairs of words and parts of words, hashed to 384 int8 numbers.

    text -> lowercase words -> {words, pairs, parts of 2 to 4 characters} --hash--> signed sums [384] -> int8 [384]

Everything is integers, up to one square root and divisions, which IEEE 754 rounds in one way only. Letters and case
come from a fixed table instead of Unicode's, which grows from version to version. So the features are equal in every
language and on every machine: frontend/packages/learner/src/hashed.ts is the same function in a browser.

They know nothing of meaning: of CLINC150's test questions 85 % are answered rightly, and 93 % with the network of `text`
(benchmarks/hashed_texts.py). Hashing: Weinberger et al. 2009; signs make the collisions cancel on average.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import lru_cache

from online.models.encoders.text import TEXT_SCALE, TEXT_WIDTH, require_text

HASHED_EPOCH = f"hashed-1-int8x{TEXT_SCALE}"

WORD, PAIR, PART = 1, 2, 3  # kinds of a term
WEIGHTS = {WORD: 2, PAIR: 1, PART: 1}
PARTS = (2, 3, 4)  # characters
SPACE = 0x20
KNOWN_TERMS = 2**16  # whose place is remembered

Codes = tuple[int, ...]  # code points

APOSTROPHE, CURLY_APOSTROPHE = 0x27, 0x2019
# Code points between words; all others belong to one. First and last.
SEPARATORS = (
    *((0x00, 0x26), (0x28, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0xA9), (0xAB, 0xB4), (0xB6, 0xB9), (0xBB, 0xBF)),
    *((0xD7, 0xD7), (0xF7, 0xF7), (0x2000, 0x206F), (0x3000, 0x303F), (0xFE00, 0xFE0F), (0xFF01, 0xFF0F)),
)
# Capital letters, and the distance to their small ones: Latin, Greek, Cyrillic.
CAPITALS = (
    *((0x41, 0x5A, 32), (0xC0, 0xD6, 32), (0xD8, 0xDE, 32), (0x391, 0x3A1, 32), (0x3A3, 0x3AB, 32)),
    *((0x400, 0x40F, 80), (0x410, 0x42F, 32)),
)


class HashedTextEncoder:
    """Encodes texts by hashing. It needs no files and no threads."""

    epoch = HASHED_EPOCH
    is_slow = True
    quick_chars = 400  # half a millisecond

    def __init__(self, max_chars: int = 8_000) -> None:
        self.max_chars = max_chars

    def encode(self, instances: Sequence[object]) -> list[bytes]:
        """Return the features of each text. Raises BadInput that names the text."""
        return [hash_text(require_text(each, place, self.max_chars)) for place, each in enumerate(instances)]


def hash_text(text: str) -> bytes:
    """Return the features of a text, int8 [384]; zeros if it has no word."""
    sums = [0] * TEXT_WIDTH
    for kind, codes in list_terms(text):
        place, sign = find_place(kind, codes)
        sums[place] += sign * WEIGHTS[kind]
    length = math.sqrt(sum(each * each for each in sums)) or 1.0
    return bytes(max(-127, min(127, round(each * TEXT_SCALE / length))) & 255 for each in sums)


def list_terms(text: str) -> Iterator[tuple[int, Codes]]:
    """Yield each term of a text: its kind and its code points."""
    words = split_words(text)
    for word in words:
        yield WORD, word
        edged = (SPACE, *word, SPACE)
        for length in PARTS:
            for start in range(len(edged) - length + 1):
                yield PART, edged[start : start + length]
    for first, second in itertools.pairwise(words):
        yield PAIR, (*first, SPACE, *second)


def split_words(text: str) -> list[Codes]:
    """Return the words of a text, in small letters, as code points."""
    words, word = list[Codes](), list[int]()
    for character in text:
        code = fold(ord(character))
        if code:
            word.append(code)
        elif word:
            words.append(tuple(word))
            word = []
    return [*words, tuple(word)] if word else words


@lru_cache(maxsize=4_096)
def fold(code: int) -> int:
    """Return the code point of the small letter; 0 for what stands between words."""
    if code == CURLY_APOSTROPHE:
        return APOSTROPHE
    if any(first <= code <= last for first, last in SEPARATORS):
        return 0
    return next((code + distance for first, last, distance in CAPITALS if first <= code <= last), code)


@lru_cache(maxsize=KNOWN_TERMS)
def find_place(kind: int, codes: Codes) -> tuple[int, int]:
    """Return the feature and the sign of a term: FNV-1a over 32-bit code points, then the last mixing steps of MurmurHash3."""
    mixed = 0x811C9DC5 ^ kind
    for code in codes:
        mixed = ((mixed ^ code) * 0x01000193) & 0xFFFFFFFF
    mixed = ((mixed ^ (mixed >> 16)) * 0x85EBCA6B) & 0xFFFFFFFF
    mixed = ((mixed ^ (mixed >> 13)) * 0xC2B2AE35) & 0xFFFFFFFF
    mixed ^= mixed >> 16
    return (mixed >> 1) % TEXT_WIDTH, 1 if mixed & 1 else -1
