"""The members of a cohort. Names are not kept, only hashes of them, each of which is of one cohort alone."""

import hashlib

from sqlalchemy import Connection

from online_federated.tables import ENDED, change_cohort, is_member, list_open, load_cohort


def hash_token(token: str) -> str:
    """Return the hash of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def hash_holder(model: str, cohort: str, holder: str) -> str:
    """Return a hash of a holder that is of one cohort only."""
    return hash_token(f"{model}/{cohort}/{holder}")


def end_cohorts_of(connection: Connection, model: str, holder: str) -> int:
    """Let the cohorts fail of which a holder is a member, which deletes their messages; return how many.

    What the member has sent is in its messages and in the masks of the others, so the whole cohort ends. A total that was added
    before stays: it does not tell who its members were.
    """
    ended = 0
    for id in list_open(connection, model):
        if is_member(connection, model, id, hash_holder(model, id, holder)):
            row = load_cohort(connection, model, id, lock=True)
            if row is None or row.state in ENDED:  # since it was listed
                continue
            ended += change_cohort(connection, row, {"state": "failed", "reason": "a member was erased"}) is not None
    return ended
