"""A RunStore on SQLAlchemy Core, shared by SQLite and PostgreSQL: schema, statements, one module per kind of thing
kept.

May enter: sqlite, postgres, repair and migrations.
Loads: with the server.
"""
