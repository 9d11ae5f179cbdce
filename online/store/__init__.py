"""The record of everything that outlives a request: predictions, feedback, events.

    handler --submit(work)--> Store's writer thread --one transaction for all waiting work--> SQLite or Postgres
    handler --read(query)---> a connection of its own

Each module holds one group of tables and the queries on it; every query is a function that takes
the connection of the caller's transaction, so that one transaction can combine several. All SQL of
the core is in this folder; that of a plugin is in the folder of the plugin.
"""

from online.store.database.store import Store
from online.store.database.values import now

__all__ = ["Store", "now"]
