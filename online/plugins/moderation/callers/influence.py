"""Limits the influence of one holder before others agree with it.

    quarantined                                 --> held: quarantine
    enough about this reply or class, or in all --> held: influence, until others agree or the window has passed
    otherwise                                   --> learned at once

Numbers have no replies or classes, so that nothing limits feedback about them but the quotas.
"""

from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection

from online.models import spec_of
from online.plugins.moderation.callers.standing import StandingRow, load_or_create_standing
from online.plugins.moderation.settings import ModerationSettings
from online.schemas.access.callers import Caller, network_of
from online.serving.processes.store_messages import NewFeedback
from online.settings import ModelSettings, Settings
from online.store.callers.held_feedback import HoldReason
from online.store.callers.quotas import use_quota, used_since
from online.store.feedback import count_unretracted


class Influence:
    """Decides for the holders of one model, within a transaction that stores feedback."""

    def __init__(self, settings: Settings, model: ModelSettings) -> None:
        self.limits, self.model = settings.part(ModerationSettings), model
        self.has_limits = not spec_of(model.kind).predicts_numbers

    def since(self, at: datetime) -> datetime:
        """Return the beginning of the window."""
        return at - timedelta(hours=self.limits.influence_window_hours)

    def load_or_create_standing(self, connection: Connection, caller: Caller, holder: str, at: datetime) -> StandingRow:
        """Return the standing of a holder that gives feedback now; a new one where there is none."""
        address = network_of(caller.address) if caller.is_visitor else ""
        return load_or_create_standing(connection, self.model.name, holder, address, at.isoformat())

    def find_hold(
        self, connection: Connection, standing: StandingRow, item: NewFeedback, subject: str | None
    ) -> HoldReason | None:
        """Return why an item is not learned yet; None if it is. subject: the reply or class that it is about."""
        if standing.is_quarantined:
            return "quarantine"
        if not self.has_limits or self.has_room(connection, standing, subject, item.prediction_id):
            return None
        return "influence"

    def has_room(
        self, connection: Connection, standing: StandingRow, subject: str | None, prediction_id: str | None
    ) -> bool:
        """Return whether a holder may say one more thing about a reply or class. What it replaces does not count."""
        at = datetime.now(UTC)
        is_new, since = standing.state == "new", self.since(at).isoformat()

        def count(about: str | None) -> int:
            return count_unretracted(connection, self.model.name, standing.holder, since, about, prediction_id)

        most = self.limits.new_influence_per_reply if is_new else self.limits.influence_per_reply
        if subject is not None and count(subject) >= most:
            return False
        return not is_new or (count(None) < self.limits.new_influence and self._has_address_room(connection, standing))

    def _has_address_room(self, connection: Connection, standing: StandingRow) -> bool:
        if not standing.address:
            return True
        since = self.since(datetime.now(UTC))
        used = used_since(connection, f"{self.model.name}@{standing.address}", "influence", since)
        return used < self.limits.new_influence_per_address

    def note_learned(self, connection: Connection, standing: StandingRow, at: datetime) -> None:
        """Count an item that is learned against the budget of its holder's address."""
        if standing.state == "new" and standing.address:
            use_quota(connection, f"{self.model.name}@{standing.address}", "influence", 1, at)
