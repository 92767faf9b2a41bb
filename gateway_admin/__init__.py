"""The Django project and the operators' side."""
