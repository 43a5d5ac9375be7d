"""structlog, set up once: one JSON object a line for journald and pipes, readable lines on a terminal.

An event is a constant `noun_verb`, its data are keys. docs/operating.md lists the events.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, TextIO

import structlog

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger, Processor

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def configure(*, level: str = "info", form: str = "auto", stream: TextIO | None = None) -> None:
    """Send every event of gpumond and every record of the standard library to `stream` (standard error).

    `form` is `json`, `text`, or `auto`: readable on a terminal, JSON elsewhere.
    """
    stream = stream or sys.stderr
    as_json = form == "json" or (form == "auto" and not stream.isatty())
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        structlog.processors.StackInfoRenderer(),
    ]
    final: list[Processor] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
        if as_json
        else [_console(stream)]
    )
    structlog.configure(
        processors=[*shared, *final],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(file=stream),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *final],
        )
    )
    logging.basicConfig(level=max(LEVELS[level], logging.WARNING), handlers=[handler], force=True)


def _console(stream: TextIO) -> Processor:
    return structlog.dev.ConsoleRenderer(
        colors=stream.isatty(),
        timestamp_key="time",
        # The default prints every local variable, which takes seconds with a whole status in it.
        exception_formatter=structlog.dev.plain_traceback,
    )


def get_logger(component: str) -> FilteringBoundLogger:
    """A logger whose events carry `component`."""
    logger: FilteringBoundLogger = structlog.get_logger(component=component)
    return logger
