"""Which keys are asked for most: counted in every gateway process, added up over all of them, bounded for each tenant."""
