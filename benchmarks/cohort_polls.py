"""What it costs a service that the members of a cohort ask again and again how far it is.

    python -m benchmarks.cohort_polls [--members N] [--polls N] [--json]

A service runs a cohort of so many members, which send what members send, with random bytes in place of sealed shares and of masked
values. In each state one client polls over one connection: the cohort, and a member before and after it has sent the message of the
round. ms: median of the polls. Each figure is also written to standard error as soon as it is measured.
"""

import http.client
import json
import os
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import asdict, astuple, dataclass
from statistics import median
from time import perf_counter
from typing import Any

from benchmarks.report import command, create_parser, print_json, say, table
from benchmarks.service import Service, running_service
from online_federated.secure_aggregation.client import AggregationClient
from online_federated.secure_aggregation.shamir import SHARE_BYTES

COHORTS = "/v1/models/vec/cohorts"
CONFIG = """
max_cohort_members = 1000

[[models]]
name = "vec"
kind = "classifier"
options = { input = "vector", size = 30, scale = 4.0 }
"""


@dataclass(frozen=True, slots=True)
class Result:
    """One kind of poll. bytes: of an answer."""

    state: str
    poll: str
    ms: float
    bytes: int


class Cohort:
    """A cohort of a service, and its members. tokens: of the members, by number."""

    def __init__(self, service: Service, members: int) -> None:
        self.connection = http.client.HTTPConnection(service.host, service.port, timeout=120)
        parameters = {"classes": ["a", "b"], "size": members, "max_examples": 10, "round_s": 3_600}
        created = self.call("POST", COHORTS, parameters)
        self.url, self.members = f"{COHORTS}/{created['id']}", members
        self.value_bytes = sum(-(-length * bits // 8) for length, bits in created["segments"])
        self.tokens = dict[int, str]()

    def send(self, method: str, url: str, body: Any = None, token: str = "") -> bytes:
        """The body of the answer."""
        headers = {"Content-Type": "application/json", "X-Cohort-Token": token}
        self.connection.request(method, url, None if body is None else json.dumps(body), headers)
        response = self.connection.getresponse()
        data = response.read()
        if response.status >= 300:
            raise RuntimeError(f"{method} {url}: {response.status} {data[:200]!r}")
        return data

    def call(self, method: str, url: str, body: Any = None, token: str = "") -> Any:
        return json.loads(self.send(method, url, body, token))

    def join(self) -> None:
        keys = AggregationClient(os.urandom).advertise()
        joined = self.call(
            "POST", f"{self.url}/members", {"sealing": encode(keys.sealing), "masking": encode(keys.masking)}
        )
        self.tokens[joined["number"]] = joined["token"]

    def share(self, number: int) -> None:
        sealed = {other: draw(2 * SHARE_BYTES + 16) for other in range(1, self.members + 1) if other != number}
        self.put(number, "shares", {"sealed": sealed, "commitment": draw(32)})

    def mask(self, number: int) -> None:
        self.put(number, "values", {"packed": draw(self.value_bytes)})

    def put(self, number: int, name: str, body: Any) -> None:
        self.send("PUT", f"{self.url}/members/{number}/{name}", body, self.tokens[number])

    def poll(self, number: int | None) -> int:
        """Ask about a member, or about the cohort (None); return the bytes of the answer."""
        if number is None:
            return len(self.send("GET", self.url))
        return len(self.send("GET", f"{self.url}/members/{number}", token=self.tokens[number]))


def encode(data: bytes) -> str:
    return b64encode(data).decode()


def draw(count: int) -> str:
    return encode(os.urandom(count))


def measure(cohort: Cohort, members: int, polls: int) -> Iterator[Result]:
    """In each round polls are measured before and after all members but the last one send; then the last one does."""

    def measure_one(state: str, poll: str, number: int | None) -> Result:
        took, size = list[float](), 0
        for _ in range(polls):
            began = perf_counter()
            size = cohort.poll(number)
            took.append(1_000 * (perf_counter() - began))
        result = Result(state, poll, median(took), size)
        say(f"{state}, {poll}: {result.ms:.2f} ms")
        return result

    for _ in range(members - 1):
        cohort.join()
    yield measure_one("joining", "cohort", None)
    yield measure_one("joining", "member", 1)
    cohort.join()
    rounds: tuple[tuple[str, Callable[[int], None]], ...] = (("sharing", cohort.share), ("masking", cohort.mask))
    for state, send in rounds:
        yield measure_one(state, "member that has not sent", members)
        for number in range(1, members):
            send(number)
        yield measure_one(state, "cohort", None)
        yield measure_one(state, "member that has sent", 1)
        send(members)
    yield measure_one("unmasking", "member that has not sent", 1)


def main() -> int:
    parser = create_parser(__doc__)
    parser.add_argument("--members", type=int, default=1_000)
    parser.add_argument("--polls", type=int, default=50, help="of each kind")
    options = parser.parse_args()
    with running_service(CONFIG) as service:
        results = list(measure(Cohort(service, options.members), options.members, options.polls))
    if options.json:
        print_json({"members": options.members, "polls": options.polls, "results": [asdict(each) for each in results]})
        return 0
    title = f"A cohort of {options.members:,} members, median of {options.polls} polls"
    table(title, ["state", "poll of", "ms", "bytes"], [[*astuple(each)] for each in results])
    return 0


if __name__ == "__main__":
    command(main)
