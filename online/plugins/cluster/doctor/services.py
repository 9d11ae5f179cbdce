"""Checks of what a service needs beside its folder: the store, Redis, and the signing keys."""

import json
from collections.abc import Iterator
from typing import Any

from online.errors import OnlineError, SetupError
from online.plugins.cluster.doctor.findings import CheckFinding, ok, problem, warning
from online.settings import Settings, mask_password, reveal
from online.state.shared_keys import compute_revision, load_stored, unseal
from online.state.signing_keys import parse_table
from online.store import Store
from online.store.database.engine import is_sqlite, without_password
from online.store.database.inspection import DatabaseFacts, inspect_database

MAX_CLOCK_S = 1.0
REDIS_S = 2.0  # after which Redis counts as unreachable
OLDEST_REDIS = 5  # the first with streams
FULL_RATIO = 0.9


def check_store(settings: Settings) -> Iterator[CheckFinding]:
    """Yield what is right and wrong with the store."""
    url = settings.store_url
    try:
        facts = inspect_database(url)
    except SetupError as error:
        yield problem("store", str(error), "install the version of online that wrote it, or choose another store")
        return
    except OnlineError as error:
        if is_sqlite(url):
            yield warning("store", str(error), "start the service, or name the right folder with --state")
        else:
            yield problem(
                "store",
                f"{error}; predictions go on, feedback is refused with status 503",
                "start Postgres, and see the setting store and the network between both machines",
            )
        return
    yield ok("store", f"{without_password(url)} answers ({facts.version})")
    yield from check_revisions(facts)
    yield from (check_sqlite(facts) if is_sqlite(url) else check_postgres(facts))


def check_revisions(facts: DatabaseFacts) -> Iterator[CheckFinding]:
    """Yield whether the tables are at the newest revision."""
    if not any(each.found for each in facts.revisions.values()):
        yield warning(
            "store", "it has no tables of online yet", "start the service, which creates them, or name the right store"
        )
    elif facts.older:
        steps = ", ".join(f"{name} {each.found or 'none'} -> {each.newest}" for name, each in facts.older.items())
        yield warning(
            "store",
            f"its tables are of an older revision: {steps}",
            "the next start of a service migrates them; make a backup before",
        )
    elif facts.newer:
        steps = ", ".join(f"{name} {each.found}, and not {each.newest}" for name, each in facts.newer.items())
        yield warning(
            "store",
            f"a newer release has migrated its tables, which this one may still use: {steps}",
            "finish the upgrade; until then make backups with the newer release",
        )
    else:
        yield ok("store", f"the tables are at the newest revision (core {facts.revisions['core'].found})")


def check_sqlite(facts: DatabaseFacts) -> Iterator[CheckFinding]:
    """Yield what matters of SQLite."""
    mode = facts.settings["journal_mode"]
    if mode == "wal":
        yield ok("store", "the journal mode of SQLite is wal")
    else:
        yield warning(
            "store",
            f"the journal mode of SQLite is {mode}: readers wait for writers",
            "stop other programs that use the file",
        )


def check_postgres(facts: DatabaseFacts) -> Iterator[CheckFinding]:
    """Yield what matters of a server of Postgres."""
    if facts.is_standby:
        yield problem(
            "store",
            "the server is a standby that only reads: nothing can be recorded",
            "let the setting store name the primary",
        )
    isolation, commits = facts.settings["default_transaction_isolation"], facts.settings["synchronous_commit"]
    if isolation == "read committed":
        yield ok("store", "transactions are read committed by default")
    else:
        yield warning(
            "store",
            f"default_transaction_isolation is {isolation}: concurrent writes may be refused, which clients see as status 503",
            "ALTER ROLE ... SET default_transaction_isolation = 'read committed'",
        )
    unsafe = [
        f"{name} = off" for name in ("synchronous_commit", "fsync", "full_page_writes") if facts.settings[name] == "off"
    ]
    if unsafe:
        yield problem(
            "store",
            f"{', '.join(unsafe)}: feedback that was acknowledged is lost if the server loses power",
            "set them to on in postgresql.conf, or for the role of this service",
        )
    else:
        yield ok("store", f"a commit is on the disk before it is acknowledged (synchronous_commit = {commits})")
    yield check_clock("clock", "of this machine", facts.clock_difference_s)
    if facts.max_connections and facts.connections > FULL_RATIO * facts.max_connections:
        yield warning(
            "store",
            f"{facts.connections} of {facts.max_connections} connections are in use; further processes are refused",
            "raise max_connections, or run fewer workers",
        )


def check_clock(subject: str, whose: str, difference_s: float) -> CheckFinding:
    """Return whether a clock agrees with that of the store."""
    if abs(difference_s) <= MAX_CLOCK_S:
        return ok(subject, f"the clock {whose} differs from that of the store by {abs(difference_s):.3f} s")
    relation = "ahead of" if difference_s > 0 else "behind"
    return warning(
        subject,
        f"the clock {whose} is {abs(difference_s):.1f} s {relation} that of the store: times that are shown are wrong, and from 300 s on "
        "replicas refuse each other. What is learned does not depend on it",
        "synchronise the clocks of both machines, such as with chrony",
    )


def check_stream(settings: Settings) -> Iterator[CheckFinding]:
    """Yield what is right and wrong with Redis, where one is configured."""
    if settings.stream is None:
        yield ok("stream", "the store itself; no Redis is configured")
        return
    from redis import Redis
    from redis.exceptions import RedisError

    name = mask_password(settings.stream)
    try:
        client: Any = Redis.from_url(settings.stream, socket_connect_timeout=REDIS_S, socket_timeout=REDIS_S)
        info: dict[str, Any] = client.info()
        policy = read_policy(client)
        client.close()
    except (RedisError, OSError, ValueError) as error:
        yield problem(
            "stream",
            f"{name} does not answer: {error}; learning goes on from the store, with less speed",
            "start Redis, and see the setting stream; nothing is lost, the stream is rebuilt from the store",
        )
        return
    yield from judge_redis(name, info, policy)


def read_policy(client: Any) -> str:
    """Return the setting `maxmemory-policy` of Redis; "" where the server does not let it be read, as hosted ones do."""
    from redis.exceptions import RedisError

    try:
        return str(client.config_get("maxmemory-policy").get("maxmemory-policy", ""))
    except RedisError:
        return ""


def judge_redis(name: str, info: dict[str, Any], policy: str) -> Iterator[CheckFinding]:
    """Yield what matters of a server of Redis. info: as the command INFO has it."""
    version = str(info.get("redis_version", ""))
    major = int(version.partition(".")[0] or 0)
    if major < OLDEST_REDIS:
        yield problem(
            "stream", f"{name} is Redis {version}, which has no streams", f"install Redis {OLDEST_REDIS} or later"
        )
        return
    yield ok("stream", f"{name} answers (Redis {version})")
    if info.get("role") not in (None, "master"):
        yield problem(
            "stream", f"{name} is a replica of Redis that only reads", "let the setting stream name the master"
        )
    policy = policy or str(info.get("maxmemory_policy", ""))
    if policy not in ("", "noeviction") and not policy.startswith("volatile"):
        yield warning(
            "stream",
            f"maxmemory-policy is {policy}: Redis may delete the stream when its memory is full; it is then rebuilt from the store",
            "CONFIG SET maxmemory-policy noeviction",
        )
    elif policy:
        yield ok("stream", f"maxmemory-policy is {policy}: the stream is not evicted")
    used, limit = int(info.get("used_memory", 0)), int(info.get("maxmemory", 0))
    if limit and used > FULL_RATIO * limit:
        yield warning(
            "stream",
            f"{used:,} of {limit:,} bytes of its memory are in use; then it refuses entries",
            "raise maxmemory",
        )
    persists = bool(int(info.get("aof_enabled", 0))) or int(info.get("rdb_last_save_time", 0)) > 0
    kept = "it persists its data" if persists else "it persists nothing"
    yield ok("stream", f"{kept}; after a loss the stream is rebuilt from the store")


def check_keys(settings: Settings, replicas: int) -> Iterator[CheckFinding]:
    """Yield whether the signing keys of this folder, and the secret of these settings, are those of the store. replicas: that are present."""
    path, own = settings.state / "keys.json", None
    if path.exists():
        try:
            own = parse_table(json.loads(path.read_bytes()))
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            yield problem(
                "signing keys", f"{path} cannot be read: {error}", "restore it from a backup (`online restore`)"
            )
            return
    if is_sqlite(settings.store_url):
        yield ok("signing keys", "those of the state folder: a store on SQLite has no replicas")
        return
    opened = Store(settings.store_url)
    try:
        stored, secret = opened.read(load_stored), reveal(settings.secret)
    except OnlineError as error:
        yield problem("signing keys", str(error), "see the message")
        return
    finally:
        opened.close()
    if stored is None:
        yield warning(
            "signing keys",
            "no replica has put keys into the store yet",
            "set ONLINE_SECRET on each replica, then start them",
        )
    elif stored.sealed is None:
        level = problem if replicas > 1 else warning
        yield level(
            "signing keys",
            "the store is served without ONLINE_SECRET: the keys are those of one state folder only",
            "set ONLINE_SECRET to the same random text on each replica, and start the present one again first",
        )
    elif secret is None:
        yield warning(
            "signing keys",
            "the keys in the store are encrypted, and ONLINE_SECRET is not set here, so that they cannot be checked",
            "set ONLINE_SECRET to the same text as on the replicas, then run this command again",
        )
    else:
        try:
            table = unseal(stored.sealed, secret)
        except ValueError:
            yield problem(
                "signing keys",
                "ONLINE_SECRET is not the secret with which the keys in the store are encrypted: a service does not start with it",
                "set it to the same text as on the other replicas; if that is lost, `online keys share-signing`",
            )
            return
        if compute_revision(own or table) == stored.revision:
            yield ok("signing keys", "shared through the store, and encrypted with the secret of these settings")
        else:
            yield warning(
                "signing keys",
                "those of this state folder are not those of the store",
                "a running service copies them within a second; if this stays, start the service again",
            )
