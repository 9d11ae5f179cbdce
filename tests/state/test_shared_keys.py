"""Signing keys of replicas: state folders of their own, and one store on Postgres."""

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr
from sqlalchemy import text

from online.errors import SetupError
from online.learning.process import tick
from online.learning.workers import WorkerHost
from online.models.devices.observer import create_observer
from online.models.devices.probe import SystemDevices
from online.settings import Settings
from online.state.shared_keys import StoredKeys, seal, share_signing_keys, unseal
from online.state.signing_keys import PURPOSES, SigningKey, SigningKeys, add_missing
from online.state.workspace import Workspace
from online.store.callers.audit import AuditEntry
from online.store.database.meta import load_signing_keys
from tests.conftest import Start, config
from tests.support import Service, run_online, until

SECRET = "a long random text"
OTHER_SECRET = "another long random text"
Open = Callable[..., Workspace]
VEC = '[[models]]\nname = "vec"\nkind = "classifier"\noptions = { input = "vector", size = 4 }\n'
VECTOR = [0.0, 0.0, 1.0, 1.0]


def describe(state: Path, store: str | None, secret: str | None = SECRET) -> Settings:
    return Settings(state=state, store=store, secret=None if secret is None else SecretStr(secret))


@pytest.fixture
def open_replica(tmp_path: Path, postgres_url: str) -> Iterator[Open]:
    """Opens a replica: open_replica(name, secret)."""
    opened: list[Workspace] = []

    def open(name: str, secret: str | None = SECRET) -> Workspace:
        opened.append(Workspace(describe(tmp_path / name, postgres_url, secret)))
        return opened[-1]

    yield open
    for workspace in opened:
        workspace.store.close()


def stored_text(workspace: Workspace) -> str | None:
    found: str | None = workspace.store.read(load_signing_keys)
    return found


def key_texts(workspace: Workspace) -> list[str]:
    """The secrets of all keys."""
    return [key.secret for keys in workspace.keys.table.values() for key in keys]


def rotate(workspace: Workspace, *purposes: str, grace_days: float | None = None) -> str:
    """Rotate keys without the wait for other replicas; return the id of the first new key."""
    return workspace.shared_keys.rotate(purposes, grace_days, spread_s=0)[0].id


# with a secret


@pytest.mark.parametrize("purpose", PURPOSES)
def test_what_one_replica_signs_verifies_at_the_other(open_replica: Open, purpose: str) -> None:
    signature = open_replica("one").keys.sign(purpose, b"chat/1")
    assert open_replica("two").keys.check(purpose, b"chat/1", signature)


def test_replicas_that_start_at_once_have_the_same_keys(open_replica: Open) -> None:
    open_replica("zero", None)  # its tables are there
    barrier = threading.Barrier(4)

    def start(number: int) -> str:
        barrier.wait(30)
        return open_replica(f"replica {number}").keys.sign("links", b"chat/1")

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(start, range(4)))) == 1


def test_a_rotation_at_one_replica_is_followed_by_the_other(open_replica: Open) -> None:
    one, two = open_replica("one"), open_replica("two")
    before = two.keys.sign("links", b"chat/1")
    new = rotate(one, "links")
    two.refresh_from_store()
    after = one.keys.sign("links", b"chat/1")
    assert after[:8] == new == two.keys.sign("links", b"chat/1")[:8]
    assert all(each.keys.check("links", b"chat/1", signature) for each in (one, two) for signature in (before, after))


def test_other_processes_of_a_state_folder_see_a_rotation_in_its_file(open_replica: Open, tmp_path: Path) -> None:
    one, two = open_replica("one"), open_replica("two")
    learner = SigningKeys(tmp_path / "two")
    new = rotate(one, "river")
    two.refresh_from_store()
    assert learner.valid_keys("river")[0].id == new


def test_a_learner_without_a_service_beside_it_follows_a_rotation(open_replica: Open, tmp_path: Path) -> None:
    one, two = open_replica("one"), open_replica("two")
    new = rotate(one, "river")
    tick(two, create_observer(tmp_path / "two", "learner", "learner", SystemDevices(), {}), WorkerHost())
    assert SigningKeys(tmp_path / "two").valid_keys("river")[0].id == new


def test_a_new_key_verifies_at_other_replicas_before_it_signs(open_replica: Open) -> None:
    one, two = open_replica("one"), open_replica("two")
    old, begun = one.keys.valid_keys("cookies")[0].id, threading.Event()

    def refresh() -> bool:
        two.refresh_from_store()
        return len(two.keys.valid_keys("cookies")) == 2

    def follow() -> None:
        until(refresh, what="the new key")
        begun.set()

    follower = threading.Thread(target=follow)
    follower.start()
    rotation = threading.Thread(target=one.shared_keys.rotate, args=(["cookies"],))
    rotation.start()
    assert begun.wait(30) and rotation.is_alive()
    assert two.keys.sign("cookies", b"visitor")[:8] == old
    rotation.join()
    follower.join()
    assert two.keys.check("cookies", b"visitor", one.keys.sign("cookies", b"visitor"))
    assert one.keys.sign("cookies", b"visitor")[:8] != old


def test_a_stolen_key_is_invalid_on_every_replica(open_replica: Open) -> None:
    one, two = open_replica("one"), open_replica("two")
    signature = two.keys.sign("cookies", b"visitor")
    rotate(one, "cookies", grace_days=0)
    two.refresh_from_store()
    assert not two.keys.check("cookies", b"visitor", signature)


def test_the_first_replica_puts_the_keys_of_its_state_folder_into_the_store(open_replica: Open, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    before = SigningKeys(tmp_path / "one").sign("links", b"chat/1")
    assert open_replica("one").keys.check("links", b"chat/1", before)
    assert open_replica("two").keys.check("links", b"chat/1", before)


def test_a_service_that_gets_a_secret_keeps_its_keys(open_replica: Open) -> None:
    alone = open_replica("one", None)
    alone.check_keys()
    before = alone.keys.sign("links", b"chat/1")
    with pytest.raises(
        SetupError, match=r"which are not in the store yet; start that service with the same ONLINE_SECRET first"
    ):
        open_replica("two")
    assert open_replica("one").keys.sign("links", b"chat/1") == before
    assert open_replica("two").keys.sign("links", b"chat/1") == before


def test_the_store_does_not_contain_the_text_of_a_key(open_replica: Open) -> None:
    one = open_replica("one")
    row = stored_text(one)
    assert row is not None and not [key for key in key_texts(one) if key in row]
    assert SECRET not in row


def test_another_secret_is_refused_and_changes_nothing(open_replica: Open, tmp_path: Path) -> None:
    one = open_replica("one")
    row = stored_text(one)
    with pytest.raises(
        SetupError, match=r"ONLINE_SECRET is not the secret .* set it to the same text as on the other replicas"
    ):
        open_replica("two", OTHER_SECRET)
    with pytest.raises(SetupError, match="ONLINE_SECRET is not the secret"):
        open_replica("one", OTHER_SECRET)
    assert stored_text(one) == row and not (tmp_path / "two" / "keys.json").exists()


def test_a_replica_without_the_secret_is_refused(open_replica: Open) -> None:
    open_replica("one")
    with pytest.raises(SetupError, match=r"are encrypted: set ONLINE_SECRET to the same text as on the other replicas"):
        open_replica("two", None).check_keys()


def test_changed_data_in_the_store_is_refused(open_replica: Open) -> None:
    one = open_replica("one")
    document = json.loads(stored_text(one) or "")
    data = document["sealed"]["data"]
    document["sealed"]["data"] = ("B" if data[0] == "A" else "A") + data[1:]
    with one.store.durable_writer.begin() as connection:
        change = text("UPDATE meta SET value = :value WHERE key = 'signing-keys'")
        connection.execute(change, {"value": json.dumps(document)})
    with pytest.raises(SetupError, match="ONLINE_SECRET is not the secret"):
        open_replica("two")


def test_each_sealing_looks_different() -> None:
    table = add_missing({}, 1_800_000_000.0)
    first, second = seal(table, SECRET), seal(table, SECRET)
    assert first["data"] != second["data"] and first["salt"] != second["salt"]
    assert unseal(first, SECRET) == unseal(second, SECRET) == table


def test_a_purpose_of_a_later_release_is_added_to_the_store(open_replica: Open, tmp_path: Path) -> None:
    earlier = open_replica("one")
    earlier.shared_keys._change(lambda table: {each: table[each] for each in table if each != "audit"})
    later = open_replica("two")
    earlier.refresh_from_store()
    assert earlier.keys.valid_keys("audit") == later.keys.valid_keys("audit")


def test_a_database_that_lost_the_keys_gets_those_in_use_again(open_replica: Open) -> None:
    one = open_replica("one")
    before = key_texts(one)
    with one.store.durable_writer.begin() as connection:
        connection.execute(text("DELETE FROM meta WHERE key = 'signing-keys'"))
    one.refresh_from_store()
    assert key_texts(one) == before == key_texts(open_replica("two"))


def test_a_lost_secret_is_replaced_by_another(open_replica: Open, postgres_url: str, tmp_path: Path) -> None:
    one = open_replica("one")
    signature = one.keys.sign("links", b"chat/1")
    share_signing_keys(describe(tmp_path / "one", postgres_url, OTHER_SECRET))
    assert open_replica("two", OTHER_SECRET).keys.check("links", b"chat/1", signature)
    one.refresh_from_store()  # it runs on: the keys are the same
    with pytest.raises(SetupError, match="ONLINE_SECRET is not the secret"):
        open_replica("three")


# without a secret


def test_a_second_state_folder_is_refused_with_the_remedy(open_replica: Open) -> None:
    open_replica("one", None).check_keys()
    with pytest.raises(SetupError) as refusal:
        open_replica("two", None).check_keys()
    for words in (
        "another replica with other signing keys",
        "ONLINE_SECRET",
        "copy its keys.json",
        "online keys share",
    ):
        assert words in str(refusal.value)
    open_replica("one", None).check_keys()


def test_a_copied_file_of_keys_is_a_remedy(open_replica: Open, tmp_path: Path) -> None:
    open_replica("one", None).check_keys()
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "keys.json").write_bytes((tmp_path / "one" / "keys.json").read_bytes())
    open_replica("two", None).check_keys()


def test_a_rotation_is_noted(open_replica: Open, tmp_path: Path) -> None:
    one = open_replica("one", None)
    one.check_keys()
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "keys.json").write_bytes((tmp_path / "one" / "keys.json").read_bytes())
    rotate(one, "links")
    open_replica("one", None).check_keys()
    with pytest.raises(SetupError, match="another replica with other signing keys"):
        open_replica("two", None).check_keys()


def test_a_folder_that_was_refused_can_take_the_place_of_one_that_is_gone(
    open_replica: Open, postgres_url: str, tmp_path: Path
) -> None:
    open_replica("one", None).check_keys()
    two = open_replica("two", None)
    share_signing_keys(describe(tmp_path / "two", postgres_url, None))
    two.check_keys()
    with pytest.raises(SetupError, match="another replica with other signing keys"):
        open_replica("one", None).check_keys()


def test_the_store_has_no_text_of_a_key(open_replica: Open) -> None:
    one = open_replica("one", None)
    one.check_keys()
    row = stored_text(one)
    assert row is not None and not [key for key in key_texts(one) if key in row]


@pytest.mark.parametrize(
    ("own", "is_known"),
    [
        ({"links": ["a", "b"], "audit": ["d"]}, True),
        ({"links": ["b"]}, False),
        ({"cookies": ["a"]}, False),
        ({}, False),
    ],
)
def test_keys_are_known_if_they_verify_what_is_signed(own: dict[str, list[str]], is_known: bool) -> None:
    table = {purpose: [SigningKey(id, "", "") for id in ids] for purpose, ids in own.items()}
    assert StoredKeys({"links": "a", "future": "c"}, "").knows(table) == is_known


# SQLite


def test_a_store_on_sqlite_holds_nothing_of_the_keys(tmp_path: Path) -> None:
    for secret in (SECRET, None):
        workspace = Workspace(describe(tmp_path / "state", None, secret))
        workspace.check_keys()
        workspace.refresh_from_store()
        assert stored_text(workspace) is None
        workspace.store.close()
    with pytest.raises(SetupError, match="a store on SQLite is not shared"):
        share_signing_keys(describe(tmp_path / "state", None))


# the audit log


def test_entries_of_another_replica_after_the_own_head_are_accepted(open_replica: Open) -> None:
    one, two = open_replica("one"), open_replica("two")
    for workspace in (one, two, two, one, two):
        workspace.audit.record(AuditEntry("local", "freeze", model="chat"))
        assert one.audit.verify()[1] is None and two.audit.verify()[1] is None
    assert one.audit.load_saved_head() != two.audit.load_saved_head()


def test_a_replica_that_joins_begins_with_the_present_head(open_replica: Open) -> None:
    one = open_replica("one")
    for action in ("freeze", "thaw"):
        one.audit.record(AuditEntry("local", action, model="chat"))
    two = open_replica("two")
    assert two.audit.verify()[1] is None
    cut_off(two, 2)
    broken = two.audit.verify()[1]
    assert broken is not None and broken.reason == "the entries up to 2 are missing"
    two.audit.path.unlink()
    broken = open_replica("two").audit.verify()[1]
    assert broken is not None and "audit.head is missing" in broken.reason, "a later start does not replace it"


def test_a_tail_that_was_cut_off_is_found_by_each_replica_that_knew_it(open_replica: Open) -> None:
    one, two = open_replica("one"), open_replica("two")
    for workspace in (one, two, one):
        workspace.audit.record(AuditEntry("local", "freeze", model="chat"))
    cut_off(one, 2)
    found = [workspace.audit.verify()[1] for workspace in (one, two)]
    assert [broken.reason for broken in found if broken] == [
        "the entries up to 3 are missing",
        "the entries up to 2 are missing",
    ]
    one.audit.record(AuditEntry("local", "thaw", model="chat"))
    broken = two.audit.verify()[1]
    assert broken is not None and "is not the one that was kept outside the database" in broken.reason


def cut_off(workspace: Workspace, first: int) -> None:
    """Delete the entries from this one on, as the owner of the database can."""
    with workspace.store.durable_writer.begin() as connection:
        connection.execute(text("ALTER TABLE audit DISABLE TRIGGER USER"))
        connection.execute(text("DELETE FROM audit WHERE id >= :first"), {"first": first})
        connection.execute(text("ALTER TABLE audit ENABLE TRIGGER USER"))


# services and commands


def ask_for_link(service: Service) -> str:
    body = {"instances": [VECTOR], "feedback_urls": True}
    answer = service.http.post("/v1/models/vec:predict", json=body).json()
    return str(answer["feedback_urls"][0])


def test_a_running_replica_follows_a_rotation_by_a_command_on_another_machine(
    start: Start, postgres_url: str, tmp_path: Path
) -> None:
    service = start(VEC, ("--no-learner",), store=postgres_url, secret=SECRET)
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "online.toml").write_text(config(folder, VEC, store=postgres_url, secret=SECRET))
    rotated = run_online(
        *("keys", "rotate-signing", "links", "--grace-days", "0", "--config", str(folder / "online.toml")),
        *("--state", str(folder)),
    )
    assert rotated.returncode == 0, rotated.stderr
    id = rotated.stdout.split()[1]
    link = until(lambda: link if f"&signature={id}." in (link := ask_for_link(service)) else None, what="the new key")
    assert httpx.post(link, json={"label": "a"}).status_code == 202


def test_a_service_with_other_keys_does_not_start(postgres_url: str, tmp_path: Path) -> None:
    first = Workspace(describe(tmp_path / "one", postgres_url, None))
    first.check_keys()
    first.store.close()
    arguments = ("--state", str(tmp_path / "two"), "--store", postgres_url)
    refused = run_online("serve", *arguments, "--port", "0")
    assert refused.returncode == 2 and "online keys share-signing" in refused.stderr
    shared = run_online("keys", "share-signing", *arguments)
    assert shared.returncode == 0 and "are those of the store from now on: noted" in shared.stdout
    second = Workspace(describe(tmp_path / "two", postgres_url, None))
    second.check_keys()
    second.store.close()
