"""The script that Alembic runs for each command, under the name env_py.

It migrates one group of tables on the connection of the caller, in the caller's transaction.
"""

from alembic import context


def migrate() -> None:
    attributes = context.config.attributes
    context.configure(connection=attributes["connection"], version_table=attributes["version_table"])
    context.run_migrations()


if __name__ == "env_py":
    migrate()
