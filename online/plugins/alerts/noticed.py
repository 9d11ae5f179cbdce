"""The state of each model and of the service that was noticed last.

noticed state --differs, and no other server was faster--> the new state; the alert is added in the same transaction
"""

from sqlalchemy import Connection, select, text, update
from sqlmodel import Field, SQLModel

from online.store.database.tables import table_of

NOTE_FIRST = text(
    "INSERT INTO alert_state (model, event, state, alerted_at) VALUES (:model, :event, :state, :alerted_at) "
    "ON CONFLICT (model, event) DO NOTHING"
)


class AlertStateRow(SQLModel, table=True):
    """The state that was last noticed. model: "" for the service itself. alerted_at: of the newest alert; "" for none."""

    __tablename__ = "alert_state"

    model: str = Field(primary_key=True)
    event: str = Field(primary_key=True)
    state: str
    alerted_at: str


ALERT_STATES = table_of(AlertStateRow)


def load_states(connection: Connection) -> dict[tuple[str, str], AlertStateRow]:
    """Return what was last noticed, by model and event."""
    rows = connection.execute(select(ALERT_STATES)).mappings()
    return {(row["model"], row["event"]): AlertStateRow(**row) for row in rows}


def note_change(connection: Connection, known: AlertStateRow | None, new: AlertStateRow) -> bool:
    """Note a state instead of the known one; return False if another server has noted one first."""
    if known is None:
        return bool(connection.execute(NOTE_FIRST, new.model_dump()).rowcount)
    same = (ALERT_STATES.c.model == known.model, ALERT_STATES.c.event == known.event)
    unchanged = (ALERT_STATES.c.state == known.state, ALERT_STATES.c.alerted_at == known.alerted_at)
    values = {"state": new.state, "alerted_at": new.alerted_at}
    return bool(connection.execute(update(ALERT_STATES).where(*same, *unchanged).values(**values)).rowcount)
