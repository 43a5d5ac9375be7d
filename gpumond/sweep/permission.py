"""Whether a sweep may use its GPUs now: every guard is asked, and one no is a refusal with all evidence.

Asked before the first run of a sweep, and again before each further one; only the quiet is not, because the GPUs have
just been busy with our own run.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpumond.guards.processes import ProcessesGuard
from gpumond.guards.quiet import QuietGuard
from gpumond.guards.report import Guard, GuardName, GuardReport, GuardSubject, ask_all
from gpumond.model.identity import GpuUuid
from gpumond.model.run import SweepOutcome
from gpumond.model.topology import Snapshot
from gpumond.process.supervisor import Cancellation
from gpumond.sweep.context import RefusedError, SweepContext
from gpumond.sweep.observation import PresenceFinder, lists_of
from gpumond.sweep.watch import GpuWatch

UNWATCHED = "unwatched"

QUIET_POLL_SECONDS = 0.25
QUIET_PATIENCE_SECONDS = 5.0
"""Whoever asks by hand waits a little longer than the quiet takes: the driver shows the last load for a second."""


def ask_unkillable(context: SweepContext) -> GuardReport:
    """Whether a process of ours hangs in the driver for good. Asked before the lock, which a benchmark still holds."""
    pids = context.lost.living_pids
    if not pids:
        context.lost.forget_gone()
        return GuardReport(GuardName.UNKILLABLE, is_clear=True, evidence="nothing of ours survived SIGKILL")
    numbers = ", ".join(map(str, pids))
    return GuardReport(
        GuardName.UNKILLABLE,
        is_clear=False,
        evidence=f"process {numbers} of an earlier sweep survived SIGKILL; no other sweep starts until it is gone or the host reboots",
    )


class Permission:
    """Asks the guards of one sweep."""

    def __init__(
        self,
        context: SweepContext,
        *,
        snapshot: Snapshot,
        watch: GpuWatch,
        find: PresenceFinder,
        is_scheduled: bool,
    ) -> None:
        self._context = context
        self._snapshot = snapshot
        self._watch = watch
        self._is_scheduled = is_scheduled
        self._guards: tuple[Guard, ...] = (*context.guards, ProcessesGuard(find))
        self._quiet = QuietGuard(
            context.quiet.log.samples,
            scheduled=context.quiet.scheduled,
            by_hand=context.quiet.by_hand,
            monotonic=context.clock.monotonic,
        )

    def ask(self, uuids: tuple[GpuUuid, ...]) -> tuple[GuardReport, ...]:
        """Every guard's answer but the quiet's, on a look that begins now. Raises RefusedError where nobody watches."""
        return ask_all(self._guards, self._subject(uuids))

    def ask_quiet(self, uuids: tuple[GpuUuid, ...], cancellation: Cancellation) -> GuardReport:
        """The quiet's answer. For a sweep by hand it is waited for."""
        subject, clock = self._subject(uuids), self._context.clock
        give_up = clock.monotonic() + self._context.quiet.by_hand.seconds + QUIET_PATIENCE_SECONDS
        while True:
            (report,) = ask_all((self._quiet,), subject)
            is_last = self._is_scheduled or cancellation.is_cancelled or clock.monotonic() >= give_up
            if report.is_clear or is_last or self._watch.ended:
                return report
            clock.sleep(QUIET_POLL_SECONDS)

    def require_first(self, uuids: tuple[GpuUuid, ...], cancellation: Cancellation) -> None:
        """All guards. Raises RefusedError with the evidence of all that said no."""
        require(self.ask(uuids))
        require([self.ask_quiet(uuids, cancellation)])

    def require_again(self, uuids: tuple[GpuUuid, ...]) -> None:
        require(self.ask(uuids))

    def _subject(self, uuids: tuple[GpuUuid, ...]) -> GuardSubject:
        look = self._watch.look_after(self._context.clock.monotonic())
        if look is None:
            reason = self._watch.ended or "no look came in time"
            raise RefusedError(SweepOutcome.SKIPPED, UNWATCHED, reason)
        return GuardSubject(uuids, self._snapshot, lists_of(look), self._is_scheduled)


def require(reports: Iterable[GuardReport]) -> None:
    """Raises RefusedError unless all are clear; counted under the first that is not."""
    refusals = [report for report in reports if not report.is_clear]
    if refusals:
        detail = "; ".join(report.evidence for report in refusals)
        raise RefusedError(SweepOutcome.SKIPPED, refusals[0].guard.value, detail)
