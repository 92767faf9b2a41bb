"""The endpoints of the data plane, one a file."""
