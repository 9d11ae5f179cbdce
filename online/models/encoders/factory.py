"""Creates the encoder that a model's options ask for."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import cast

from online.models.contract import Encoder, Options
from online.models.encoders.hashed import HashedTextEncoder
from online.models.encoders.rows import TableEncoder, VectorEncoder
from online.models.encoders.text import TextEncoder
from online.models.kinds import HASHED


def create_encoder(
    options: Options,
    cache: Path,
    threads: int = 2,
    max_chars: int = 8_000,
    tuned: Path | None = None,
    keeps: bool = False,
) -> Encoder:
    """Return the encoder for the options `input`, `size`, `language`, `text_features` and `encoder_path`, of a kind with its own one.

    cache: folder of the text encoder's graph. threads: that encode one text. max_chars: longest text.
    tuned: the file of a tuned text encoder, or None for the one that is shipped. keeps: whether features of texts
    are kept in `cache`.
    """
    if path := str(options.get("encoder_path", "")):
        module, _, name = path.partition(":")
        others = {key: value for key, value in options.items() if key != "encoder_path"}
        inner = create_encoder(others, cache, threads, max_chars, tuned, keeps)
        wrap = cast(Callable[[Encoder, int], Encoder], getattr(import_module(module), name))
        return wrap(inner, max_chars)
    match options.get("input", "text"):
        case "text" if options.get("text_features") == HASHED:
            return HashedTextEncoder(max_chars)
        case "text":
            return TextEncoder(cache, threads, max_chars, tuned, keeps, options.get("language", ""))
        case "vector":
            return VectorEncoder(int(options.get("size", 0)))
        case _:
            return TableEncoder()
