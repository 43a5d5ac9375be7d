"""The runs of one collective that count, in one night: from what is remembered of it to verdicts and signals. Pure.

The order is: note which inputs changed, compare with the baseline, let re-runs clear what was disturbed, ask the
detectors, then learn. A night is learned only when nothing spoke against it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from gpumond.judge import policy
from gpumond.judge.assessment import Assessment, Reason, not_evaluated
from gpumond.judge.attribution import blamed, cause_of, sentence_of
from gpumond.judge.baseline import (
    add_night,
    effective_latency_sigma,
    effective_sigma,
    has_full_rules,
    is_settled,
    learn,
    median_values,
    open_candidate,
)
from gpumond.judge.detectors import NOTHING, Detection, Rules, detect, detect_latency
from gpumond.judge.fingerprint import carried, changes_between, is_other_host
from gpumond.judge.ledger import Signal
from gpumond.judge.observation import Observation
from gpumond.judge.score import bandwidth_score, latency_score
from gpumond.judge.scored import Scored, against_model, assess, score_run, with_throttling, with_transport
from gpumond.judge.shape import shape_of
from gpumond.judge.transport import TransportChange, transport_change
from gpumond.model.baseline import AlarmKind, Baseline, Candidate, JudgedNight, NightValues, Track
from gpumond.model.change import Level
from gpumond.model.finding import FindingKind
from gpumond.model.run import Verdict


class Tonight:
    """The valid runs of one night, at least one; its attributes become what is remembered after it."""

    def __init__(self, track: Track, runs: Sequence[Observation], siblings: float) -> None:
        """`siblings` is the typical noise of the scope."""
        self.runs = runs
        self._siblings = siblings
        self.at = runs[0].at
        self.collective = runs[0].track.collective
        self.signals: list[Signal] = []
        self._before = track
        self._baseline = track.baseline
        self._candidate = track.candidate
        self._bandwidth = track.bandwidth
        self._latency = track.latency
        self._fingerprint: Mapping[str, str] = track.fingerprint
        self._changes = track.changes
        self._transport = track.transport

    def remembered(self) -> Track:
        return Track(
            baseline=self._baseline,
            candidate=self._candidate,
            rejected=self._before.rejected,
            bandwidth=self._bandwidth,
            latency=self._latency,
            fingerprint=dict(self._fingerprint) if self._is_new_fingerprint() else self._before.fingerprint,
            changes=self._changes,
            transport=self._transport,
            results=self._before.results,
            failures=self._before.failures,
            last_at=self.at,
        )

    def _is_new_fingerprint(self) -> bool:
        return self._fingerprint is not self._before.fingerprint

    def judge(self) -> list[Assessment]:
        """One assessment a run."""
        self._note_inputs()
        baseline = self._baseline
        if baseline is not None and is_other_host(baseline.fingerprint, self._fingerprint):
            self._collect(self._values(self.runs), None)
            return [not_evaluated(Reason.OTHER_HOST, "the baseline was learned on another host")] * len(
                self.runs
            )
        if baseline is None or baseline.night_count < policy.PROVISIONAL_NIGHTS:
            return self._judge_young(baseline)
        change = self._note_transport(baseline)
        assessments = self._judge_scored(baseline)
        if change is TransportChange.SLOWER:
            return [with_transport(item, self._transport) for item in assessments]
        return assessments

    # What changed

    def _note_inputs(self) -> None:
        last = self.runs[-1]
        if last.fingerprint != self._fingerprint:
            before, self._fingerprint = self._fingerprint, carried(self._fingerprint, last.fingerprint)
            found = changes_between(before, self._fingerprint, self.at)
            self._changes = (*self._changes, *found)[-policy.KEPT_CHANGES :]
        self._transport = last.transport or self._transport

    def _note_transport(self, baseline: Baseline) -> TransportChange:
        change = transport_change(baseline.transport, self._transport)
        if change is TransportChange.NONE:
            return change
        changes = blamed(self._changes, onset=self.at, until=self.at, last_good_at=self._before.last_at)
        is_better = change is TransportChange.FASTER
        self.signals.append(
            Signal(
                kind=FindingKind.TRANSPORT_CHANGE,
                level=Level.INFO if is_better else None,
                collective=self.collective,
                first_at=self.at,
                confirmed_at=self.at,
                detail=f"{self.collective}: transport {baseline.transport} -> {self._transport};"
                f" {sentence_of(changes) if changes else 'no input that we record changed'}",
                cause=cause_of(changes),
            )
        )
        return change

    # Nights without a usable baseline

    def _judge_young(self, baseline: Baseline | None) -> list[Assessment]:
        if baseline is not None and (
            changes_between(baseline.fingerprint, self._fingerprint, self.at)
            or self._has_other_path(baseline)
        ):
            baseline = None  # a handful of nights under other inputs is not worth a candidate
        assessments = [against_model(run) for run in self.runs]
        below = all(item.verdict is Verdict.DEGRADED for item in assessments)
        self._note_model(is_below=below)
        if not below:
            self._baseline = learn(baseline, self._values(self.runs), self._fingerprint, self._transport)
        return assessments

    def _note_model(self, *, is_below: bool) -> None:
        state = self._bandwidth
        if not is_below:
            self._bandwidth = replace(state, alarm=None, is_provisional=False)
        elif state.is_provisional:
            self._bandwidth = replace(state, alarm=AlarmKind.STEP, is_provisional=False)
            self._raise(FindingKind.STEP, state.recent[-1].at, "is far below the link model")
        elif state.alarm is None:
            night = JudgedNight(self.at, 0.0, 0.0)
            self._bandwidth = replace(state, recent=(night,), is_provisional=True)
            self._raise(FindingKind.PROVISIONAL, self.at, "is far below the link model")

    # Nights with one

    def _judge_scored(self, baseline: Baseline) -> list[Assessment]:
        sigma = effective_sigma(baseline, self._siblings)
        scored = [score_run(run, baseline, sigma) for run in self.runs]
        chosen = self._chosen(scored)
        values = self._values([item.run for item in chosen])
        ratio = chosen[0].ratio if len(chosen) == 1 else bandwidth_score(values.busbw, baseline.busbw)
        if ratio is None:
            return [not_evaluated(Reason.FEWER_ROWS, "no size that the baseline has")] * len(scored)
        night = JudgedNight(self.at, ratio, (ratio - 1) / sigma, len(chosen) > 1)
        if has_full_rules(baseline) and baseline.sigma > policy.TOO_NOISY_SIGMA:
            self._learn_or_collect(baseline, values, ratio)
            detail = f"the score varies by {baseline.sigma:.0%} from night to night"
            return [not_evaluated(Reason.TOO_NOISY, detail, item.ratio) for item in scored]
        self._detect(baseline, night)
        self._detect_latency(baseline, values, chosen)
        if not self._speaks_against(night, baseline):
            self._learn_or_collect(baseline, values, ratio)
        else:
            self._collect(values, ratio)
        return [
            self._assess(item, baseline, is_disturbed=not any(item is one for one in chosen))
            for item in scored
        ]

    def _assess(self, item: Scored, baseline: Baseline, *, is_disturbed: bool) -> Assessment:
        if is_disturbed:
            return not_evaluated(
                Reason.DISTURBED, "a re-run of the same night was within the noise", item.ratio
            )
        if not has_full_rules(baseline) and self._bandwidth.alarm is None:
            judged = against_model(item.run)
            return replace(judged, score=item.ratio) if judged.score is None else judged
        judged = assess(item, baseline, self._bandwidth, self._latency)
        return with_throttling(judged, item.run.throttled)

    def _chosen(self, scored: Sequence[Scored]) -> Sequence[Scored]:
        """The runs that count: where a re-run is good, the host is, and the low ones were disturbed."""
        if len(scored) == 1:
            return scored
        best = max(item.z for item in scored)
        if best < policy.CLEARED_Z:
            return scored
        return [item for item in scored if item.z >= best - policy.DISTURBED_Z]

    def _values(self, runs: Sequence[Observation]) -> NightValues:
        if len(runs) == 1:
            return NightValues(self.at, runs[0].busbw, runs[0].seconds)
        return NightValues(
            self.at,
            median_values([run.busbw for run in runs]),
            median_values([run.seconds for run in runs]),
        )

    def _detect(self, baseline: Baseline, night: JudgedNight) -> None:
        widening = policy.NOISY_WIDENING if baseline.sigma > policy.NOISY_SIGMA else 1.0
        rules = Rules(has_full_rules(baseline), widening)
        self._bandwidth, found = detect(self._bandwidth, night, rules)
        if found is not NOTHING:
            self._signal(found, night)

    def _signal(self, found: Detection, night: JudgedNight) -> None:
        onset = found.raised_since or self.at
        if found.raised is not None:
            self._raise(
                _finding_of(found.raised),
                onset,
                _loss_in_words(found.raised, night),
                last_good_at=found.last_good_at,
            )
        elif found.is_severe:
            what = f"was at {night.ratio:.1%} of its baseline for one night"
            self._raise(FindingKind.PROVISIONAL, onset, what, last_good_at=found.last_good_at)
        elif found.lasts is not None:
            self._renew(found.lasts, night)

    def _detect_latency(self, baseline: Baseline, values: NightValues, chosen: Sequence[Scored]) -> None:
        if not values.seconds or not baseline.seconds or not has_full_rules(baseline):
            return
        if any((item.run.cpu_load_per_core or 0.0) > policy.LATENCY_LOAD_PER_CORE for item in chosen):
            return
        ratio = latency_score(values.seconds, baseline.seconds)
        if ratio is None:
            return
        night = JudgedNight(self.at, ratio, (ratio - 1) / effective_latency_sigma(baseline))
        self._latency, found = detect_latency(self._latency, night)
        if found.raised is not None and found.raised_since is not None:
            slower = f"small sizes take {1 / ratio:.2f} times as long as normal"
            self._raise(FindingKind.STEP, found.raised_since, slower, last_good_at=found.last_good_at)

    def _raise(
        self, kind: FindingKind, onset: datetime, what: str, *, last_good_at: datetime | None = None
    ) -> None:
        changes = blamed(self._changes, onset=onset, until=self.at, last_good_at=last_good_at)
        self.signals.append(
            Signal(
                kind=kind,
                collective=self.collective,
                first_at=onset,
                confirmed_at=None if kind is FindingKind.PROVISIONAL else self.at,
                detail=f"{self.collective} {what}; {sentence_of(changes, self._circumstances())}",
                evidence=self._evidence(),
                cause=cause_of(changes),
            )
        )

    def _renew(self, alarm: AlarmKind, night: JudgedNight) -> None:
        """The finding that is open says how low it is now. What changed after it was raised is not its cause."""
        state = self._bandwidth
        onset, until = state.alarm_since or self.at, state.alarm_at or self.at
        changes = blamed(self._changes, onset=onset, until=until, last_good_at=state.alarm_last_good_at)
        self.signals.append(
            Signal(
                kind=_finding_of(alarm),
                collective=self.collective,
                first_at=onset,
                confirmed_at=until,
                detail=f"{self.collective} {_loss_in_words(alarm, night)};"
                f" {sentence_of(changes, self._circumstances())}",
                evidence=self._evidence(),
                cause=cause_of(changes),
            )
        )

    def _circumstances(self) -> list[str]:
        """What is not as it was when the baseline was learned, and is no input."""
        run, known = self.runs[-1], self._baseline.transport if self._baseline else ""
        is_other = run.transport and known and run.transport != known
        found = [f"transport {known} -> {run.transport}"] if is_other else []
        found += self._throttling()
        if (run.cpu_load_per_core or 0.0) > policy.LATENCY_LOAD_PER_CORE:
            found.append(f"CPU load {run.cpu_load_per_core:.2f} a core")
        return found

    def _throttling(self) -> list[str]:
        throttled = self.runs[-1].throttled
        return [f"throttled ({throttled})"] if throttled else []

    def _evidence(self) -> str:
        """What was recorded around the run, for whoever looks for the cause."""
        run = self.runs[-1]
        facts = [f"transport {run.transport}"] if run.transport else []
        if run.cpu_load_per_core is not None:
            facts.append(f"CPU load {run.cpu_load_per_core:.2f} a core")
        known = self._baseline.busbw if self._baseline else {}
        return "; ".join((*facts, *self._throttling(), *shape_of(run.points, known)))

    # Learning

    def _speaks_against(self, night: JudgedNight, baseline: Baseline) -> bool:
        """Whether the night must not be learned: it is too low to be one of the healthy ones, its GPUs were throttled, its
        data went another way, or an alarm was open. The night that ends an alarm is left out too: it counts as recovered because it was good, and
        noise learned from nights that were chosen for being good is too small.
        """
        if self._before.bandwidth.alarm or self._bandwidth.alarm or self._bandwidth.is_provisional:
            return True
        if any(run.throttled for run in self.runs) or self._has_other_path(baseline):
            return True
        return has_full_rules(baseline) and night.z <= policy.NOT_LEARNED_Z

    def _has_other_path(self, baseline: Baseline) -> bool:
        return transport_change(baseline.transport, self._transport) is not TransportChange.NONE

    def _learn_or_collect(self, baseline: Baseline, values: NightValues, ratio: float) -> None:
        if not self._collect(values, ratio) and not is_settled(baseline):
            self._baseline = learn(baseline, values, self._fingerprint, self._transport)

    def _collect(self, values: NightValues, ratio: float | None) -> bool:
        """Give the night to the candidate; False where the inputs are those of the baseline, so that it may be learned."""
        baseline, candidate = self._baseline, self._candidate
        changes = changes_between(baseline.fingerprint, self._fingerprint, self.at) if baseline else ()
        if not changes or self._fingerprint == self._before.rejected:
            self._candidate = None
            return bool(changes)
        if candidate is None or candidate.fingerprint != self._fingerprint:
            candidate = open_candidate(changes, self._fingerprint, self.at)
            self._signal_candidate(candidate)
        self._candidate = add_night(candidate, values, ratio)
        return True

    def _signal_candidate(self, candidate: Candidate) -> None:
        what = "only a person can accept it" if candidate.needs_person else "it is being learned"
        self.signals.append(
            Signal(
                kind=FindingKind.BASELINE_CANDIDATE,
                collective=self.collective,
                first_at=self.at,
                confirmed_at=None,
                detail=f"{self.collective}: a new normal may begin, {what}; {sentence_of(candidate.changes)}",
                cause=cause_of(candidate.changes),
                level=Level.WARNING if candidate.needs_person else None,
            )
        )


def _finding_of(alarm: AlarmKind) -> FindingKind:
    return FindingKind.DRIFT if alarm is AlarmKind.DRIFT else FindingKind.STEP


def _loss_in_words(alarm: AlarmKind, night: JudgedNight) -> str:
    what = "has declined to" if alarm is AlarmKind.DRIFT else "is at"
    return f"{what} {night.ratio:.1%} of its baseline"
