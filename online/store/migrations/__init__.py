"""The history of the database schema, as Alembic revisions: a folder for each group of tables.

`online/store/database/schema.py` runs them. To change a table: change its class, add a module to the folder of its group,
append its revision to the `TableGroup`, and add rows of the table to tests/store/test_migrations.py.
"""
