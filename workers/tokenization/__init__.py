"""How a model makes tokens of a prompt, as plain data: the worker publishes it, the gateway counts by it."""
