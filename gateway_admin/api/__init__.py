"""The operators' REST API under ``/api/v1/``: one noun a file, rights from :mod:`gateway_admin.roles`."""
