"""Signing keys: separate for each purpose and rotated beside running services."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from online.errors import SetupError
from online.state.signing_keys import DAY_S, PURPOSES, REFRESH_S, SigningKeys, rotate_signing_keys


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def keys(tmp_path: Path, clock: Clock) -> SigningKeys:
    return SigningKeys(tmp_path, clock)


def test_a_signature_names_its_key_and_verifies(keys: SigningKeys) -> None:
    signature = keys.sign("links", b"chat/1")
    assert signature.partition(".")[0] == keys.valid_keys("links")[0].id
    assert keys.check("links", b"chat/1", signature)


@pytest.mark.parametrize("other", [purpose for purpose in PURPOSES if purpose != "links"])
def test_a_signature_for_one_purpose_is_not_valid_for_another(keys: SigningKeys, other: str) -> None:
    assert not keys.check(other, b"chat/1", keys.sign("links", b"chat/1"))


def test_a_changed_message_or_signature_is_refused(keys: SigningKeys) -> None:
    signature = keys.sign("links", b"chat/1")
    id, _, digits = signature.partition(".")
    other = digits[:-1] + ("1" if digits[-1] == "0" else "0")
    for wrong in (f"{id}.{other}", digits, f"{id}.", f".{digits}", "", "é.é", signature[:-8], signature + "0"):
        assert not keys.check("links", b"chat/1", wrong)
    assert not keys.check("links", b"chat/2", signature)


def test_the_file_is_for_its_user_only(keys: SigningKeys, tmp_path: Path) -> None:
    assert keys.path.stat().st_mode & 0o777 == 0o600
    keys.path.chmod(0o644)  # a careless copy
    SigningKeys(tmp_path)
    assert keys.path.stat().st_mode & 0o777 == 0o600


def test_keys_are_the_same_after_a_restart(keys: SigningKeys, tmp_path: Path) -> None:
    assert SigningKeys(tmp_path).check("cookies", b"visitor", keys.sign("cookies", b"visitor"))


def test_processes_that_start_at_once_share_their_keys(tmp_path: Path) -> None:
    barrier = threading.Barrier(8)

    def start(_: int) -> str:
        barrier.wait(30)
        return SigningKeys(tmp_path).sign("links", b"chat/1")

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(start, range(8)))) == 1


def test_a_rotated_key_signs_no_more_and_verifies_for_its_grace(keys: SigningKeys, clock: Clock) -> None:
    before = keys.sign("links", b"chat/1")
    (rotated,) = keys.rotate(["links"])
    after = keys.sign("links", b"chat/1")
    assert (before[:8], after[:8]) == (rotated.replaced_id, rotated.id)
    clock.now += 29.9 * DAY_S
    assert keys.check("links", b"chat/1", before) and keys.check("links", b"chat/1", after)
    clock.now += 0.2 * DAY_S
    assert not keys.check("links", b"chat/1", before) and keys.check("links", b"chat/1", after)


def test_a_stolen_key_is_invalid_at_once_without_grace(keys: SigningKeys) -> None:
    before = keys.sign("cookies", b"visitor")
    keys.rotate(["cookies"], grace_days=0)
    assert not keys.check("cookies", b"visitor", before)
    assert before[:8] not in keys.path.read_text()


def test_keys_of_river_states_verify_for_ever(keys: SigningKeys, clock: Clock) -> None:
    before = keys.sign("river", b"state")
    keys.rotate()
    clock.now += 10_000 * DAY_S
    assert keys.check("river", b"state", before)


def test_a_rotation_leaves_other_purposes_alone(keys: SigningKeys) -> None:
    before = keys.sign("cookies", b"visitor")
    keys.rotate(["links"])
    assert keys.sign("cookies", b"visitor") == before
    with pytest.raises(ValueError, match="no signing keys for 'lynx'; use links, cookies"):
        keys.rotate(["lynx"])


def test_a_rotation_reaches_running_processes_within_a_second(keys: SigningKeys, clock: Clock, tmp_path: Path) -> None:
    before, revision = keys.sign("links", b"chat/1"), keys.revision
    (rotated,) = rotate_signing_keys(tmp_path, ["links"])
    assert keys.sign("links", b"chat/1") == before  # the file is not looked at for every signature
    clock.now += REFRESH_S
    assert keys.sign("links", b"chat/1")[:8] == rotated.id and keys.revision != revision


def test_a_signature_of_a_key_that_was_just_created_verifies(keys: SigningKeys, tmp_path: Path) -> None:
    rotate_signing_keys(tmp_path)
    assert keys.check("links", b"chat/1", SigningKeys(tmp_path).sign("links", b"chat/1"))


@pytest.mark.parametrize("content", ["", "[]", '{"format": 2}', '{"format": 1, "purposes": {"links": []}}'])
def test_a_damaged_file_is_reported_and_not_replaced(tmp_path: Path, content: str) -> None:
    (tmp_path / "keys.json").write_text(content)
    with pytest.raises(SetupError, match=r"keys\.json is damaged; restore it"):
        SigningKeys(tmp_path)
    assert (tmp_path / "keys.json").read_text() == content


def test_a_purpose_of_a_later_release_gets_a_key_and_unknown_ones_are_kept(keys: SigningKeys, tmp_path: Path) -> None:
    document = json.loads(keys.path.read_text())
    before = document["purposes"]["links"]
    document["purposes"]["future"] = document["purposes"].pop("erasure")
    keys.path.write_text(json.dumps(document))
    SigningKeys(tmp_path).rotate(["cookies"])
    purposes = json.loads(keys.path.read_text())["purposes"]
    assert purposes["links"] == before and set(purposes) == {*PURPOSES, "future"}


def test_there_are_no_keys_to_rotate_without_a_state_folder(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="there is no state folder"):
        rotate_signing_keys(tmp_path / "none")
