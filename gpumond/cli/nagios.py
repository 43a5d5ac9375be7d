"""A health report in the language of Nagios plugins (also Icinga, Naemon, Checkmk, NRPE). Pure.

One line `SERVICE STATUS: text | performance data`, then lines for people. The exit codes are Nagios' own, and no
other than these four: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

from gpumond.cli.health import BLIND, DAEMON_SILENT_SECONDS_MAX, HealthReport, Trouble, reaches
from gpumond.model.change import Level
from gpumond.topology.printable import printable

SERVICE = "GPUMOND"
SCORES_MAX = 32
"""Nagios cuts what is longer than 8 KiB."""


class NagiosState(IntEnum):
    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


def state_of(report: HealthReport) -> NagiosState:
    """Not evaluated is OK with text, except where nobody can say how the host is."""
    if report.is_failing:
        is_critical = any(
            trouble.is_confirmed and trouble.level is Level.CRITICAL for trouble in report.troubles
        )
        return NagiosState.CRITICAL if is_critical else NagiosState.WARNING
    return NagiosState.UNKNOWN if report.reason in BLIND else NagiosState.OK


def render(report: HealthReport, fail_on: Level) -> str:
    state = state_of(report)
    word = report.verdict.value + (f" ({report.reason})" if report.reason else "")
    head = f"{SERVICE} {state.name}: {_plain(f'{word}: {report.detail}')} | {' '.join(_performance(report))}"
    return "\n".join([head, *(_line(trouble, fail_on) for trouble in report.troubles)])


def render_unknown(message: str) -> str:
    """What stands in the place of a report that could not be made."""
    return f"{SERVICE} {NagiosState.UNKNOWN.name}: {_plain(message)}"


def _line(trouble: Trouble, fail_on: Level) -> str:
    words = [trouble.level.value, trouble.kind]
    if not trouble.is_confirmed:
        words.append("unconfirmed")
    elif not reaches(trouble.level, fail_on):
        words.append("below the level asked for")
    return _plain(f"{', '.join(words)}, since {trouble.since:%Y-%m-%d %H:%M}Z: {trouble.detail}")


def _performance(report: HealthReport) -> Iterator[str]:
    """`'label'=value[unit];warn;crit;min;max`."""
    if report.daemon_age_seconds is not None:
        yield f"daemon_age={report.daemon_age_seconds:.0f}s;;{DAEMON_SILENT_SECONDS_MAX:.0f};0"
    if report.gpus_age_seconds is not None:
        yield f"snapshot_age={report.gpus_age_seconds:.0f}s;;;0"
    yield f"gpus={report.gpus};;;0"
    for level in reversed(Level):
        yield f"findings_{level.value}={report.count(level)};;;0"
    for score in report.scores[:SCORES_MAX]:
        place = f"{score.sweep}/{score.engine.value}/{score.gpu_set}/{score.collective.value}"
        yield f"'score {place}'={score.score:.4f};;;0"


def _plain(text: str) -> str:
    """A bar would begin performance data, a line break long output."""
    return printable(" ".join(text.split())).replace("|", "/")
