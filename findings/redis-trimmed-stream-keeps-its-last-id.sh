#!/usr/bin/env bash
# Redis 7.0 (server), redis-py 8.1.0: a stream whose entries were deleted looks empty, and cannot be filled with them again.
# After XTRIM key MAXLEN 0, or XDEL of the newest entry, XLEN, XRANGE and XREVRANGE say that the stream ends earlier, but
# XADD refuses every id up to the highest that it ever had. Whoever copies a log under its own ids, and asks the stream for
# its end to go on from there, fails for good; after DEL the same copy succeeds. Only XINFO STREAM shows the difference.
# Output:
#   trimmed: length 0, last entry None, last-generated-id 3-1
#   XADD 1-1: The ID specified in XADD is equal or smaller than the target stream top item
#   newest deleted: length 2, last entry 2-1, last-generated-id 3-1
#   XADD 3-1: The ID specified in XADD is equal or smaller than the target stream top item
#   deleted key: XADD 1-1 succeeds
set -euo pipefail
command -v redis-server > /dev/null || { echo "needs redis-server"; exit 2; }
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check redis==8.1.0
redis-server --port 0 --unixsocket "$folder/redis.sock" --save "" --dir "$folder" > /dev/null &
server=$!
"$folder/venv/bin/python" - "$folder/redis.sock" <<'PYTHON'
import sys
import time

from redis import Redis
from redis.exceptions import ConnectionError, ResponseError

redis = Redis(unix_socket_path=sys.argv[1], decode_responses=True)
for _ in range(100):
    try:
        redis.ping()
        break
    except ConnectionError:
        time.sleep(0.1)


def fill() -> None:
    redis.delete("log")
    for number in (1, 2, 3):
        redis.xadd("log", {"event": number}, f"{number}-1")


def show(what: str) -> None:
    last = redis.xrevrange("log", count=1)
    highest = redis.xinfo_stream("log")["last-generated-id"]
    print(f"{what}: length {redis.xlen('log')}, last entry {last[0][0] if last else None}, last-generated-id {highest}")
    assert highest == "3-1"


def is_refused(id: str) -> None:
    try:
        redis.xadd("log", {"event": "again"}, id)
    except ResponseError as error:
        print(f"XADD {id}: {error}")
        assert "equal or smaller" in str(error)
        return
    sys.exit(f"XADD {id} succeeded: the behaviour has changed")


fill()
redis.xtrim("log", maxlen=0, approximate=False)
show("trimmed")
is_refused("1-1")
fill()
redis.xdel("log", "3-1")
show("newest deleted")
is_refused("3-1")
redis.delete("log")
redis.xadd("log", {"event": 1}, "1-1")
print("deleted key: XADD 1-1 succeeds")
PYTHON
