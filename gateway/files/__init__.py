"""Files that tenants keep here: receiving, finding, sending and deleting them."""
