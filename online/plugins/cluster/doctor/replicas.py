"""Checks of the replicas: who is absent, who has other bytes, another release, another clock, or cannot be reached.

ClusterAnswer (status.py) --> findings        nothing here asks a replica but `check_urls`
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from online.plugins.cluster.doctor.findings import CheckFinding, ok, problem, warning
from online.plugins.cluster.doctor.services import check_clock
from online.plugins.cluster.schemas import ClusterAnswer, ClusterModel, ReplicaModel, ReplicaState

BEHIND = 10_000  # events that a replica may lack without a warning: a few seconds of learning
REQUEST_S = 3.0
MIN_FREE_BYTES = 500_000_000
Of = tuple[ReplicaState, ReplicaModel]


def check_replicas(answer: ClusterAnswer) -> Iterator[CheckFinding]:
    """Yield what the store says of the replicas."""
    if not answer.is_shared:
        return
    present = [each for each in answer.replicas if each.is_present]
    if not present:
        yield warning("replicas", "no replica is present", "start one: `online serve`")
    else:
        yield ok("replicas", f"{len(present)} present: {', '.join(each.id for each in present)}")
    for each in answer.replicas:
        if not each.is_present:
            yield warning(
                f"replica {each.id}",
                f"absent for {each.seen_s:.0f} s: it does not run, or does not reach the store. The others go on without it",
                "start it, or see its log; if its machine is gone, do nothing: it is forgotten after 7 days",
            )
    yield from check_releases(present)
    yield from check_shared_keys(present)
    for each in present:
        yield from check_replica(each)
    for model in answer.models:
        yield from check_model(
            model, [(each, own) for each in present for own in each.models if own.model == model.model]
        )


def check_releases(present: Sequence[ReplicaState]) -> Iterator[CheckFinding]:
    """Yield whether all replicas run the same release."""
    of_release = defaultdict(list)
    for each in present:
        of_release[each.release or "an earlier one"].append(each.id)
    if len(of_release) > 1:
        shown = "; ".join(f"{release}: {', '.join(ids)}" for release, ids in sorted(of_release.items()))
        yield warning(
            "replicas",
            f"they run different releases: {shown}",
            "finish the upgrade: let every replica run the newest of them",
        )
    elif present:
        yield ok("replicas", f"all run release {next(iter(of_release))}")


def check_shared_keys(present: Sequence[ReplicaState]) -> Iterator[CheckFinding]:
    """Yield whether all replicas sign with the same keys."""
    sets = {each.signing_keys for each in present if each.signing_keys}
    if len(sets) > 1:
        yield problem(
            "replicas",
            "they have different signing keys: cookies and links of one are refused by another, and no version can be fetched",
            "set ONLINE_SECRET to the same text on each replica, and start them again; a rotation takes three seconds until all have it",
        )
    elif len(present) > 1:
        yield ok("replicas", "all have the same signing keys")


def check_replica(replica: ReplicaState) -> Iterator[CheckFinding]:
    """Yield what one replica reports of itself."""
    subject = f"replica {replica.id}"
    if replica.clock_difference_s is not None:
        found = check_clock(subject, "of its machine", replica.clock_difference_s)
        if found.level != "ok":
            yield found
    if replica.free_disk_bytes is not None and replica.free_disk_bytes < MIN_FREE_BYTES:
        yield warning(subject, f"its disk has {replica.free_disk_bytes / 1e9:.2f} GB left", "make room there")
    if replica.learner == "restarting":
        yield warning(
            subject,
            "its learner ends and is started again; the learners of the others go on",
            "see its log: 'learner failed'",
        )


def check_model(model: ClusterModel, replicas: Sequence[Of]) -> Iterator[CheckFinding]:
    """Yield whether the replicas agree on one model, and learn it."""
    subject = f"model {model.model}"
    if model.is_frozen:
        yield warning(
            subject,
            "it is frozen: nothing is learned, feedback waits in the log",
            f"`online thaw --model {model.model}`",
        )
    if not replicas:
        return
    findings = [*find_differences(subject, replicas)]
    yield from findings
    if not findings:
        yield ok(subject, describe_agreement(model, replicas))
    if all(own.role == "does not learn" for _, own in replicas):
        yield problem(
            subject,
            "no replica learns it: feedback waits in the log",
            "see the log of a replica, and the setting learner",
        )
    for replica, own in replicas:
        if own.lag > BEHIND and not model.is_frozen:
            yield warning(
                f"replica {replica.id}",
                f"it is {own.lag:,} events of {model.model} behind",
                "run this command again: if the number does not fall, see its log",
            )


def find_differences(subject: str, replicas: Sequence[Of]) -> Iterator[CheckFinding]:
    """Yield each way in which the replicas of one model do not have the same bytes."""
    for replica, own in replicas:
        if own.diverged is not None:
            yield problem(
                f"replica {replica.id}",
                f"it has diverged: at offset {own.diverged.learned_until} of {own.model} it learned the state {own.diverged.ours[:12]}, and "
                f"{own.diverged.published[:12]} was published. Its learner ran on: {own.diverged.determinism_domain}. It serves the "
                "published versions, and publishes none",
                "run the same build on the same kind of processor on every replica; if they are the same, test the memory of that machine; "
                "then start it again",
            )
        if own.agrees is False:
            yield problem(
                f"replica {replica.id}",
                f"version {own.version} of {own.model} has the state {own.state_sha256[:12]} there, which is not the one that was published",
                "stop it, delete its state folder (the store has everything), and start it again",
            )
    by_place = defaultdict[tuple[str, int], dict[str, list[str]]](dict)
    for replica, own in replicas:
        if own.state_sha256:
            by_place[own.version, own.learned_until].setdefault(own.state_sha256, []).append(replica.id)
    for (version, offset), hashes in by_place.items():
        if len(hashes) > 1:
            shown = "; ".join(f"{hash[:12]} on {', '.join(ids)}" for hash, ids in sorted(hashes.items()))
            yield problem(
                subject,
                f"version {version} at offset {offset} has different states: {shown}",
                "see the findings of the replicas",
            )


def describe_agreement(model: ClusterModel, replicas: Sequence[Of]) -> str:
    """Return a sentence about replicas that do not differ."""
    states = sorted({(own.learned_until, own.state_sha256[:12]) for _, own in replicas})
    shown = ", ".join(f"{hash or 'nothing learned'} at offset {until}" for until, hash in states)
    return f"{len(replicas)} replicas agree with what was published: {shown} (log: {model.head})"


def check_urls(answer: ClusterAnswer, own: str | None) -> Iterator[CheckFinding]:
    """Yield whether each present replica is reached at its URL from here. own: the replica of this machine, if it has one."""
    import httpx

    present = [each for each in answer.replicas if each.is_present]
    with httpx.Client(
        timeout=REQUEST_S, verify=False, trust_env=False
    ) as client:  # whose certificate it is does not matter here
        for each in present:
            subject = f"replica {each.id}"
            if not each.url:
                if len(present) > 1:
                    yield warning(
                        subject,
                        "it has not said at which URL it is reached: no version can be fetched from it",
                        "set replica_url there",
                    )
                continue
            try:
                status = client.get(f"{each.url}/readyz").status_code
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                yield judge_unreachable(each, own, f"{type(error).__name__}: {error}")
                continue
            yield judge_status(each, status)


def judge_unreachable(replica: ReplicaState, own: str | None, reason: str) -> CheckFinding:
    """Return the finding for a replica that does not answer. It matters where this machine is a replica too."""
    is_replica = own is not None
    level = problem if is_replica else warning
    who = "this replica cannot fetch versions from it" if is_replica else "other replicas may reach it all the same"
    return level(
        f"replica {replica.id}",
        f"{replica.url} does not answer here ({reason}): {who}",
        "set replica_url there to the address at which others reach it, and see the firewall between both",
    )


def judge_status(replica: ReplicaState, status: int) -> CheckFinding:
    """Return the finding for the status with which a replica answers /readyz."""
    subject = f"replica {replica.id}"
    if status == 421:
        return problem(
            subject, f"{replica.url} refuses its own name (status 421)", "add the host name to allowed_hosts there"
        )
    if status == 200:
        return ok(subject, f"{replica.url} answers, and is ready")
    if status == 503:
        return warning(
            subject, f"{replica.url} answers, but is not ready (status 503)", f"see the reasons at {replica.url}/readyz"
        )
    return problem(
        subject,
        f"{replica.url} answers with status {status}: another program may listen there",
        "set replica_url there",
    )
