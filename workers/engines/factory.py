"""Which engine the settings ask for."""

from domain.config import Config
from workers.engines.port import Engine


def make_engine(config: Config) -> Engine:
    """Make the configured engine, not started. What an engine needs is imported only if it is the one."""
    if config.engine == "simulator":
        from workers.engines.simulator import SimulatorEngine

        return SimulatorEngine(config)
    if config.engine == "padded":
        from workers.engines.padded import PaddedEngine

        return PaddedEngine(config)
    from workers.engines.vllm_engine import VllmEngine

    return VllmEngine(config)
