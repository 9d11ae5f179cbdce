"""The history of the database schema, as Alembic revisions: a folder for each group of tables.

`online/store/database/schema.py` runs them. To change a table: change its class, add a module to the folder of its group,
append its revision to the `TableGroup`, and set its `compatible_from`. The release before uses the store beside the new one, so
columns are added first and removed two revisions later: see CONTRIBUTING.md.
"""
