"""Settlement: every admitted request ends in exactly one usage row."""
