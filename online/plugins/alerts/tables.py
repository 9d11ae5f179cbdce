"""The tables of alerts, as one group of the store."""

from pathlib import Path

from online.plugins.alerts.deliveries import ALERTS, DELIVERIES
from online.plugins.alerts.noticed import ALERT_STATES
from online.store.database.tables import TableGroup

ALERT_TABLES = TableGroup("alerts", (ALERT_STATES, ALERTS, DELIVERIES), ("1",), Path(__file__).parent / "migrations")
