"""Encodes what a model reads of a row: the treatment of its columns, and then the encoder of texts, vectors or tables.

{"id": 7, "sentence": "Where is the lift?"} --create_treatment--> "Where is the lift?" --encoder--> features
"""

from collections.abc import Sequence

from online.evaluation.sources.column_profile import TableProfile, create_treatment
from online.models import Encoder


class ColumnEncoder:
    """An encoder of rows, of which a model reads what their profile makes of them."""

    def __init__(self, encoder: Encoder, profile: TableProfile) -> None:
        self.encoder, self._treat = encoder, create_treatment(profile)
        self.epoch, self.is_slow, self.quick_chars = encoder.epoch, encoder.is_slow, encoder.quick_chars

    def encode(self, instances: Sequence[object]) -> list[bytes]:
        """Encode the instances. Raises ValueError as the encoder does."""
        return self.encoder.encode([*map(self._treat, instances)])


def encode_columns(encoder: Encoder, profile: TableProfile) -> Encoder:
    """Return the encoder of rows with such columns: itself where they are read as they are."""
    return encoder if profile.is_plain else ColumnEncoder(encoder, profile)
