"""A release that does not exist yet: a copy of the package with two further revisions of the schema.

    revision 3    the nullable column feedback.origin, in which this release writes and the one before does not
    revision 4    the table release_note
    revision 5    removes the column again (`contracts`): code of revision 2 never used it, but is said to be too old

A service of it is started with the folder first on the path of Python. Nothing here imports pytest.
"""

import shutil
from pathlib import Path

import online

ORIGIN = "next release"  # in the column, of feedback that the next release has taken
PACKAGE = Path(online.__file__).parent
REVISION = '''"""{title}

Revision ID: {number}
"""

import sqlalchemy as sa
from alembic import op

revision, down_revision = "{number}", "{before}"


def upgrade() -> None:
    {change}
'''
CHANGES = [
    ("A column.", 'op.add_column("feedback", sa.Column("origin", sa.String(), nullable=True))'),
    ("A table.", 'op.create_table("release_note", sa.Column("id", sa.String(), primary_key=True))'),
    ("The column is gone.", 'op.drop_column("feedback", "origin")'),
]
TABLE = '''

class ReleaseNoteRow(SQLModel, table=True):
    """A table that only this release knows."""

    __tablename__ = "release_note"

    id: str = Field(primary_key=True)


RELEASE_NOTES = table_of(ReleaseNoteRow)
'''


def write_next_release(folder: Path, contracts: bool = False) -> Path:
    """Write the package into a folder; return the folder, for the path of Python. contracts: with revision 5."""
    package = folder / "online"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__", "static"))
    (package / "api" / "static").symlink_to(PACKAGE / "api" / "static")
    store, changes = package / "store", CHANGES if contracts else CHANGES[:2]
    for number, (title, change) in enumerate(changes, start=3):
        text = REVISION.format(title=title, number=number, before=number - 1, change=change)
        (store / "migrations" / "core" / f"r{number}_next.py").write_text(text)
    revisions = ", ".join(f'"{number}"' for number in range(1, 3 + len(changes)))
    oldest = "4" if contracts else "2"
    replace(
        store / "database" / "schema.py",
        ('("1", "2"), MIGRATIONS / "core")', f'({revisions}), MIGRATIONS / "core", compatible_from="{oldest}")'),
        ("import FEEDBACK\n", "import FEEDBACK, RELEASE_NOTES\n"),
        ("    FEEDBACK,\n", "    FEEDBACK,\n    RELEASE_NOTES,\n"),
    )
    edits = [("\n\nFEEDBACK = table_of(FeedbackRow)\n", f"\n\nFEEDBACK = table_of(FeedbackRow)\n{TABLE}")]
    if not contracts:
        edits += [
            (
                "    answered_until: int | None = None\n\n\n",
                "    answered_until: int | None = None\n    origin: str | None = None\n\n\n",
            ),
            ('| {"status": "accepted"}', f'| {{"status": "accepted", "origin": "{ORIGIN}"}}'),
        ]
    replace(store / "feedback.py", *edits)
    replace(package / "__init__.py", (f'__version__ = "{online.__version__}"', '__version__ = "9.0.0"'))
    return folder


def replace(path: Path, *edits: tuple[str, str]) -> None:
    """Replace texts that a file has once. Raises ValueError where it does not have one: then it has changed, and so must this."""
    text = path.read_text()
    for before, after in edits:
        if text.count(before) != 1:
            raise ValueError(f"{path} has {before!r} {text.count(before)} times")
        text = text.replace(before, after)
    path.write_text(text)
