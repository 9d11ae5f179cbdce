"""The tables of the store, in groups: those of the core, and one group for each feature that keeps something.

    TableGroup("alerts", tables, revisions, migrations) --> created or migrated when a store is opened (schema.py)

    revisions 1, 2, 3, compatible_from 2      a release that ends with 2 opens a store at 3, and one that ends with 1 is refused

Each group has migrations and a version table of its own. So a feature can be added to a store that is in use, and the
tables of a feature that is gone stay as they are and disturb nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Table
from sqlmodel import SQLModel

CORE = "core"
MIGRATIONS = Path(__file__).parent.parent / "migrations"  # of the groups in this package


@dataclass(frozen=True, slots=True)
class TableGroup:
    """Tables that are created and migrated together.

    tables: as the code uses them. revisions: of the schema, oldest first. migrations: the folder with an Alembic script for
    each revision; the first one creates the tables, and each later one changes them. was_core: whether the tables of the first
    revision were those of the core in an earlier version of this package. compatible_from: the oldest revision whose code may
    read and write the tables at the newest one; "" for the newest one alone.
    """

    name: str
    tables: Sequence[Table]
    revisions: Sequence[str]
    migrations: Path
    was_core: bool = False
    compatible_from: str = ""

    def __post_init__(self) -> None:
        if self.oldest_code not in self.revisions:
            raise ValueError(
                f"the {self.name} tables have no revision {self.compatible_from!r}: name one of `revisions`"
            )

    @property
    def oldest_code(self) -> str:
        """Return the oldest revision whose code may use the tables at the newest one."""
        return self.compatible_from or self.head

    @property
    def head(self) -> str:
        """Return the newest revision, which the tables are at."""
        return self.revisions[-1]

    @property
    def version_table(self) -> str:
        """Return the name of the table that holds the revision of these tables in a store."""
        return "alembic_version" if self.name == CORE else f"alembic_version_{self.name}"


def table_of(row: type[SQLModel]) -> Table:
    """Return the table in which the rows of a class are stored."""
    return SQLModel.metadata.tables[str(row.__tablename__)]
