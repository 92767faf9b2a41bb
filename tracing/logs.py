"""JSON logs with the colour of the request in every line. No prompt, answer or secret is ever logged."""

import logging
import re
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

from tracing import colour, names

_SECRET = re.compile(r"(sk-sluice-\w{8}-|sluice-op-\w{5})\w+", re.ASCII)
"""API keys of tenants and tokens of operators, up to what may be known of them."""


def get(name: str) -> structlog.stdlib.BoundLogger:
    """A logger; its events are stable keys (``snake_case``), details are fields."""
    logger: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name)
    return logger


def configure(level: str, process: str) -> None:
    """Send all logs of this process, other libraries' too, to stderr as JSON lines.

    Args:
        level: "debug", "info", "warning" or "error".
        process: name of the process, in every line.
    """
    shared: list[structlog.types.Processor] = [
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _add_colour,
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.processors.format_exc_info,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.processors.format_exc_info],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                _named(process),
                structlog.processors.JSONRenderer(),
                _without_secrets,
            ],
        )
    )
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)


def _add_colour(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    now = colour.current.get()
    if now is not None:
        event.setdefault(names.REQUEST_ID, now.request_id)
        event.setdefault(names.TRACE_ID, now.trace_id)
        for name in (names.TENANT_SCOPE, names.MODEL_VERSION, names.BATCH_ID):
            if value := getattr(now, name):
                event.setdefault(name, value)
    return event


def _without_secrets(_logger: Any, _method: str, line: Any) -> str:
    """Clients put keys where they do not belong, such as into paths, which other libraries log."""
    return _SECRET.sub(r"\1***", line)


def _named(process: str) -> structlog.types.Processor:
    def add(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        event["process"] = process
        return event

    return add
