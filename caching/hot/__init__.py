"""Which keys are asked for most: counted in every process, added up over all, bounded for each tenant."""
