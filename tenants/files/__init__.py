"""Files that tenants keep here: rows in the database, contents in a directory."""
