"""Who is a member of a cohort. Names are not kept, only hashes of them, each of which is of one cohort alone."""

import hashlib

from sqlalchemy import Connection

from online.store.cohorts import change_cohort, is_member, list_open, load_cohort


def hash_token(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def hash_holder(model: str, cohort: str, holder: str) -> str:
    return hash_token(f"{model}/{cohort}/{holder}")


def end_cohorts_of(connection: Connection, model: str, holder: str) -> int:
    """Let the cohorts fail of which a holder is a member, which deletes their messages; return how many.

    Without one member the others could not go on: they have sealed shares for it. A total that was added before names nobody.
    """
    ended = 0
    for id in list_open(connection, model):
        if is_member(connection, model, id, hash_holder(model, id, holder)):
            row = load_cohort(connection, model, id, lock=True)
            if row is not None and change_cohort(connection, row, {"state": "failed", "reason": "a member was erased"}):
                ended += 1
    return ended
