"""Features of texts on disk: found again, bounded, and never wrong where a file is damaged."""

from pathlib import Path

import pytest

from online.models.encoders import text as text_module
from online.models.encoders.text import RECORD_BYTES, TEXT_WIDTH, FeatureCache, TextEncoder

TEXTS = {f"text {n}": bytes([n]) * TEXT_WIDTH for n in range(6)}


def create_cache(folder: Path, max_records: int = 100) -> FeatureCache:
    return FeatureCache(folder, "epoch", max_records)


def test_features_are_found_by_another_process_and_not_by_another_encoder(tmp_path: Path) -> None:
    create_cache(tmp_path).keep(TEXTS)
    again = create_cache(tmp_path)
    assert {text: again.find(text) for text in TEXTS} == TEXTS
    assert FeatureCache(tmp_path, "other").find("text 1") is None
    assert b"text 1" not in again.path.read_bytes()


@pytest.mark.parametrize("damage", ["flipped", "cut off", "garbage"])
def test_a_damaged_record_is_ignored_and_written_again(tmp_path: Path, damage: str) -> None:
    cache = create_cache(tmp_path)
    cache.keep(TEXTS)
    data = bytearray(cache.path.read_bytes())
    if damage == "flipped":
        data[RECORD_BYTES + 40] ^= 1  # of the second record
    cache.path.write_bytes({"cut off": bytes(data[:-5]), "garbage": b"no records"}.get(damage, bytes(data)))
    found = create_cache(tmp_path)
    missing = [text for text, features in TEXTS.items() if found.find(text) != features]
    assert missing == {"flipped": ["text 1"], "cut off": ["text 5"], "garbage": [*TEXTS]}[damage]
    assert all(found.find(text) is None for text in missing)
    found.keep({text: TEXTS[text] for text in missing})
    assert all(create_cache(tmp_path).find(text) == features for text, features in TEXTS.items())


def test_the_oldest_are_dropped_beyond_the_limit(tmp_path: Path) -> None:
    cache = create_cache(tmp_path, max_records=4)
    for text, features in TEXTS.items():
        cache.keep({text: features})
    kept = create_cache(tmp_path, max_records=4)
    assert kept.find("text 5") and not kept.find("text 0")
    assert cache.path.stat().st_size <= 4 * RECORD_BYTES


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = create_cache(tmp_path / "file")
    cache.keep(TEXTS)
    assert cache.find("text 1") == TEXTS["text 1"]


def test_an_encoder_that_keeps_features_encodes_a_text_once(tmp_path: Path) -> None:
    questions = ["When do you open?", "Where are you?", "hi", "When do you open?"]
    first = TextEncoder(tmp_path, keeps=True).encode(questions)
    again = TextEncoder(tmp_path, keeps=True)
    again._session = None  # it cannot encode
    assert again.encode(questions) == first


def test_a_batch_has_the_bytes_of_each_text_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    questions = [f"Where is the {noun} number {n}?" for noun in ("book", "door", "printer") for n in range(40)]
    together = TextEncoder(tmp_path).encode(questions)
    monkeypatch.setattr(text_module, "BATCH_TOKENS", 1)
    assert TextEncoder(tmp_path).encode(questions) == together
