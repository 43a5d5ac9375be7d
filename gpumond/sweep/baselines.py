"""What a person says of baselines: accept a new normal, reject it, begin anew, take a decision back.

A decision is about a whole scope: collectives that were measured together change together. It holds from the next night
on, it stays on record with its user and reason, and it can be undone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Final

from gpumond.clock import Clock
from gpumond.errors import NotEvaluatedError
from gpumond.judge import policy
from gpumond.judge.baseline import accept, accept_nights, reject
from gpumond.judge.ledger import confirm_candidates, settle
from gpumond.judge.observation import Observation
from gpumond.judge.stored_run import observation_of
from gpumond.model.baseline import NightValues, Scope, ScopeMemory, Track, TrackKey
from gpumond.store.records import BaselineDecisionKind
from gpumond.store.sqlite import Store


class BaselineAction(StrEnum):
    """The request that a command makes of a running daemon."""

    ACCEPT = "baseline_accept"
    REJECT = "baseline_reject"
    RESET = "baseline_reset"
    UNDO = "baseline_undo"


SWEEP: Final = "sweep"
GPU_SET: Final = "gpu_set"
REASON: Final = "reason"
RUNS: Final = "runs"
"""Arguments of such a request; all are text."""


def decide(store: Store, clock: Clock, action: BaselineAction, arguments: dict[str, str], *, by: str) -> str:
    """Obey, for every scope that is meant. The answer is a sentence. Raises NotEvaluatedError where there is nothing."""
    scopes = [scope for scope in store.judged_scopes() if _is_meant(scope, arguments)]
    if not scopes:
        raise NotEvaluatedError(
            "nothing has been judged yet that is meant", hint="`gpumond baseline show` lists what has."
        )
    reason = arguments.get(REASON, "")
    if action is BaselineAction.UNDO:
        done = [scope for scope in scopes if store.undo_baseline_decision(scope, by=by, reason=reason)]
        return _answer(done, "the last decision is undone", "no decision stands that could be undone")
    runs = int(arguments.get(RUNS, "0"))
    done = [scope for scope in scopes if _decide_scope(store, clock, action, scope, runs, by, reason)]
    words = {
        BaselineAction.ACCEPT: ("the new baseline is accepted", "no candidate waits"),
        BaselineAction.REJECT: ("the candidate is rejected", "no candidate waits"),
        BaselineAction.RESET: ("the baseline is learned anew", "there is no baseline"),
    }
    return _answer(done, *words[action])


def _is_meant(scope: Scope, arguments: dict[str, str]) -> bool:
    return arguments.get(SWEEP) in (None, "", scope.sweep) and arguments.get(GPU_SET) in (
        None,
        "",
        scope.gpu_set,
    )


def _answer(done: Iterable[Scope], yes: str, no: str) -> str:
    names = ", ".join(str(scope) for scope in done)
    if not names:
        raise NotEvaluatedError(no, hint="`gpumond baseline show` says where each baseline stands.")
    return f"{yes}: {names}"


def _decide_scope(  # noqa: PLR0917 - one decision in full
    store: Store, clock: Clock, action: BaselineAction, scope: Scope, runs: int, by: str, reason: str
) -> bool:
    memory = store.judge_record(scope).memory
    tracks = _decided(action, memory, _recent_nights(store, scope, runs) if runs else {})
    if tracks == memory.tracks:
        return False
    is_accepted = action is BaselineAction.ACCEPT
    before = confirm_candidates(memory.findings, clock.now()) if is_accepted else memory.findings
    page = settle(scope, before, (), tracks, clock.now())
    store.decide_baseline(
        scope,
        BaselineDecisionKind(action.value.removeprefix("baseline_")),
        ScopeMemory(tracks, page.open),
        page.changed if not is_accepted else (*before, *page.changed),
        by=by,
        reason=reason,
    )
    return True


def _decided(
    action: BaselineAction, memory: ScopeMemory, nights: dict[TrackKey, list[NightValues]]
) -> dict[TrackKey, Track]:
    if action is BaselineAction.RESET:
        return {}
    if nights:
        return {
            key: accept_nights(track, nights[key]) if key in nights else track
            for key, track in memory.tracks.items()
        }
    change: Callable[[Track], Track] = (
        (lambda track: accept(track, origin="accepted")) if action is BaselineAction.ACCEPT else reject
    )
    return {key: change(track) for key, track in memory.tracks.items()}


def _recent_nights(store: Store, scope: Scope, count: int) -> dict[TrackKey, list[NightValues]]:
    """The newest `count` measurements of each track, each as if it were a night: commissioning in one evening."""
    found: dict[TrackKey, list[Observation]] = {}
    for numbered in reversed(store.runs_to_judge(scope, 0)):
        run = observation_of(numbered.run, {}, model_busbw=None, cpu_count=0)
        if run.busbw and len(found.setdefault(run.track, [])) < count:
            found[run.track].append(run)
    short = [str(key) for key, runs in found.items() if len(runs) < policy.PROVISIONAL_NIGHTS]
    if count < policy.PROVISIONAL_NIGHTS or short:
        raise NotEvaluatedError(
            f"a baseline needs {policy.PROVISIONAL_NIGHTS} runs of each collective, there are fewer"
            + (f" of {', '.join(short)}" if short else " asked for"),
            hint="Run `gpumond sweep` a few times more.",
        )
    return {
        key: [NightValues(run.at, run.busbw, run.seconds) for run in reversed(runs)]
        for key, runs in found.items()
    }
