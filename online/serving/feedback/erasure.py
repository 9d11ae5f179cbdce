"""Erasure of a user: retract all their feedback, and blank their name and words."""

from sqlalchemy import Connection

from online.schemas.feedback import ErasureAnswer
from online.serving.feedback.retraction import record_retraction
from online.serving.transactions import Transactions
from online.store.erasure import erase_user as blank_rows
from online.store.feedback import list_unretracted_of_user


async def erase_user(transactions: Transactions, user: str) -> ErasureAnswer:
    """Erase a user in one transaction. A repeated call finds nothing more to erase."""
    erased: ErasureAnswer = await transactions.commit(
        lambda connection: record_erasure(connection, transactions, user), needs_room=False
    )
    return erased


def record_erasure(connection: Connection, transactions: Transactions, user: str) -> ErasureAnswer:
    ids = list_unretracted_of_user(connection, transactions.name, user)
    offset = max((record_retraction(connection, transactions, id).offset for id in ids), default=0)
    feedback, predictions = blank_rows(connection, transactions.name, user)
    return ErasureAnswer(feedback=feedback, predictions=predictions, offset=offset)
