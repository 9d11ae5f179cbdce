"""The script that Alembic runs for each command, under the name env_py.

It migrates on the connection of the caller, in the caller's transaction.
"""

from alembic import context


def migrate() -> None:
    context.configure(connection=context.config.attributes["connection"])
    context.run_migrations()


if __name__ == "env_py":
    migrate()
