"""The tables of usage, as one group of the store."""

from online.store.database.tables import MIGRATIONS, TableGroup
from online.store.usage.answer_ratings import ANSWER_RATINGS
from online.store.usage.counts import USAGE_COUNTS
from online.store.usage.ratings import RATINGS

USAGE_TABLES = TableGroup("usage", (USAGE_COUNTS, RATINGS, ANSWER_RATINGS), ("1",), MIGRATIONS / "usage")
