"""The table of engineering.md 2.2 with real children, and whatever else a benchmark may do to its supervisor."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
import tracemalloc

import pytest
from benchmark_stand_in import CAPTURES, NO_ROWS, Ending, Grandchild, Script, calls_of

from gpumond.clock import SystemClock
from gpumond.model.run import Cause
from gpumond.process.supervisor import Cancellation, Command, Limits, run

ROW = re.compile(r"\s*\d+\s+\d+\s+float\s")
ARGUMENTS = ("-b", "8", "-e", "2G", "-f", "2", "-g", "2")
ROWS = 29


@pytest.fixture
def measure(tmp_path, benchmark_stand_in, supervise):
    """`measure(script, limits)` runs a stand-in; the lines it printed are in `measure.rows`."""

    def start(script: Script, limits: Limits | None = None, **options):
        directory = benchmark_stand_in(tmp_path / "bin", {"all_reduce_perf": script})
        start.rows = []

        def on_line(line: str) -> bool:
            is_row = ROW.match(line) is not None
            if is_row:
                start.rows.append(line)
            return is_row

        return supervise(directory / "all_reduce_perf", *ARGUMENTS, limits=limits, on_line=on_line, **options)

    start.binary = tmp_path / "bin" / "all_reduce_perf"
    return start


def cancel_after(cancellation: Cancellation, seconds: float, **request) -> threading.Timer:
    timer = threading.Timer(seconds, lambda: cancellation.cancel(**request))
    timer.start()
    return timer


class TestTheTable:
    def test_a_benchmark_that_is_well(self, measure):
        started = []
        result = measure(Script(), on_start=lambda pid, ticks: started.append((pid, ticks)))
        assert (result.cause, result.exit_status, result.detail) == (Cause.EXITED, 0, "")
        assert result.output == (CAPTURES / "ar_std.out").read_bytes()
        assert len(measure.rows) == ROWS
        assert started == [(result.pid, result.start_ticks)]
        assert calls_of(measure.binary)[0]["pid"] == result.pid
        assert result.dropped_bytes == 0
        assert 0 < result.cpu_seconds < result.duration_seconds
        assert (result.evidence, result.leftovers, result.clear_seconds) == ((), (), None)

    def test_the_start_is_told_before_the_first_line_also_when_we_are_late(self, tmp_path):
        class LateClock(SystemClock):
            """Its owner gets no processor until the child has printed and is gone."""

            def monotonic(self) -> float:
                time.sleep(0.1)
                return super().monotonic()

        told = []
        command = Command(("echo", "row"), {"PATH": "/bin"}, tmp_path)
        result = run(
            command,
            Limits(20),
            clock=LateClock(),
            on_start=lambda *_: told.append("start"),
            on_line=lambda _: told.append("line"),
        )
        assert (result.cause, told) == (Cause.EXITED, ["start", "line"])

    def test_a_hang_before_the_first_row(self, measure):
        result = measure(
            Script(ending=Ending.HANG, after_row=0), Limits(20, first_row_seconds=0.5, row_seconds=20)
        )
        assert (result.cause, result.exit_status) == (Cause.NO_FIRST_ROW, -signal.SIGTERM)
        assert 0.5 <= result.duration_seconds < 3
        assert result.detail.startswith("printed no row within 0.5 s; its threads were: 1 x S in ")
        assert b"#wrong" in result.output

    def test_a_hang_after_the_third_row(self, measure):
        result = measure(
            Script(ending=Ending.HANG, after_row=3), Limits(20, first_row_seconds=20, row_seconds=0.5)
        )
        assert (result.cause, result.exit_status) == (Cause.ROW_STALLED, -signal.SIGTERM)
        assert result.detail.startswith("printed no further row within 0.5 s after row 3; its threads were: ")
        assert len(measure.rows) == 3
        (thread,) = result.evidence
        assert (thread.pid, thread.thread, thread.state) == (result.pid, result.pid, "S")
        assert "sleep" in thread.waits_in

    def test_a_hang_that_ignores_sigterm(self, measure):
        script = Script(ending=Ending.HANG, after_row=3, ignore_sigterm=True)
        result = measure(script, Limits(20, first_row_seconds=20, row_seconds=0.3, grace_seconds=0.3))
        assert (result.cause, result.exit_status) == (Cause.ROW_STALLED, -signal.SIGKILL)
        assert "; it ignored SIGTERM; " in result.detail
        assert 0.3 <= result.clear_seconds < 2

    def test_half_a_row_is_no_row(self, measure):
        script = Script(ending=Ending.HALF_ROW_HANG, after_row=2)
        result = measure(script, Limits(20, first_row_seconds=20, row_seconds=0.5))
        assert result.cause is Cause.ROW_STALLED
        assert len(measure.rows) == 2
        assert not result.output.endswith(b"\n")

    def test_a_flood_ends_at_the_limit(self, measure):
        limits = Limits(20, head_bytes=10_000, tail_bytes=5_000, max_bytes=1_000_000)
        result = measure(Script(ending=Ending.FLOOD, after_row=1), limits)
        assert (result.cause, result.exit_status) == (Cause.OUTPUT_LIMIT, -signal.SIGTERM)
        assert result.detail == "printed more than 1000000 bytes"
        assert len(result.output) < 15_100
        assert result.dropped_bytes > 900_000

    def test_rows_that_never_end_meet_the_total(self, measure):
        result = measure(Script(seconds_per_row=0.1), Limits(1.0, first_row_seconds=0.9, row_seconds=0.9))
        assert (result.cause, result.exit_status) == (Cause.TOTAL_TIMEOUT, -signal.SIGTERM)
        assert 0 < len(measure.rows) < ROWS

    def test_a_limit_may_be_as_long_as_one_likes(self, supervise):
        assert supervise("true", limits=Limits(1e12)).exit_status == 0

    @pytest.mark.parametrize(
        ("ignore_sigterm", "status"), [(False, -signal.SIGTERM), (True, -signal.SIGKILL)]
    )
    def test_cancelled(self, measure, ignore_sigterm, status):
        cancellation = Cancellation()
        script = Script(ending=Ending.HANG, after_row=3, ignore_sigterm=ignore_sigterm)

        def on_start(_pid, _ticks):
            cancel_after(cancellation, 0.3, reason="a user's job has started")

        result = measure(script, Limits(20, grace_seconds=0.3), cancellation=cancellation, on_start=on_start)
        assert (result.cause, result.exit_status) == (Cause.CANCELLED, status)
        assert result.detail == "a user's job has started" + "; it ignored SIGTERM" * ignore_sigterm

    def test_a_crash(self, measure):
        result = measure(Script(ending=Ending.SIGNAL, after_row=2))
        assert (result.cause, result.exit_status) == (Cause.EXITED, -signal.SIGSEGV)
        assert result.detail == "was ended by SIGSEGV"
        assert len(measure.rows) == 2

    @pytest.mark.parametrize(
        ("script", "status", "detail"),
        [
            (Script(ending=Ending.EXIT, after_row=2, exit_status=3), 3, "exited with status 3"),
            (NO_ROWS, 0, ""),
            (Script(usage=True), 0, ""),
        ],
    )
    def test_an_exit_is_reported_as_it_is(self, measure, script, status, detail):
        result = measure(script)
        assert (result.cause, result.exit_status, result.detail) == (Cause.EXITED, status, detail)


class TestWhatAChildLeavesBehind:
    @pytest.mark.parametrize("grandchild", list(Grandchild))
    def test_a_grandchild_of_a_benchmark_that_is_well(self, measure, grandchild):
        result = measure(Script(grandchild=grandchild))
        assert (result.cause, result.exit_status) == (Cause.EXITED, 0)
        assert result.duration_seconds < 5
        assert result.output == (CAPTURES / "ar_std.out").read_bytes()

    @pytest.mark.parametrize("grandchild", list(Grandchild))
    @pytest.mark.parametrize(
        ("ignore_sigterm", "status"), [(False, -signal.SIGTERM), (True, -signal.SIGKILL)]
    )
    def test_a_grandchild_of_a_benchmark_that_hangs(self, measure, grandchild, ignore_sigterm, status):
        script = Script(grandchild=grandchild, ending=Ending.HANG, ignore_sigterm=ignore_sigterm)
        result = measure(script, Limits(0.5, grace_seconds=0.2))
        assert (result.cause, result.exit_status) == (Cause.TOTAL_TIMEOUT, status)
        assert (
            result.clear_seconds < 0.95
        )  # the output of what is left is not waited for, as it is after an exit

    def test_a_grandchild_that_hides(self, supervise):
        """Own session and an empty environment: found while its parent lives."""
        result = supervise("sh", "-c", "setsid env -i /bin/sleep 60 & sleep 60", limits=Limits(0.5))
        assert result.cause is Cause.TOTAL_TIMEOUT

    def test_a_tree_that_forks_while_it_is_killed(self, supervise):
        script = "trap '' TERM; while :; do setsid sh -c 'sleep 60' & sleep 0.01; done"
        result = supervise("sh", "-c", script, limits=Limits(0.7, grace_seconds=0))
        assert (result.cause, result.exit_status) == (Cause.TOTAL_TIMEOUT, -signal.SIGKILL)

    def test_output_written_after_the_end_of_the_child_still_counts(self, supervise):
        result = supervise("sh", "-c", "(sleep 0.3; echo late) & echo early")
        assert result.output == b"early\nlate\n"

    def test_a_cancel_does_not_wait_for_late_output(self, supervise):
        cancellation = Cancellation()
        cancel_after(cancellation, 0.4, grace_seconds=0)
        result = supervise("sh", "-c", "sleep 60 & exit 0", cancellation=cancellation)
        assert (result.cause, result.exit_status) == (Cause.EXITED, 0)
        assert result.duration_seconds < 0.9


class TestOutput:
    def test_both_streams_in_one(self, supervise):
        assert supervise("sh", "-c", "echo one; echo two >&2; echo three").output == b"one\ntwo\nthree\n"

    def test_streams_kept_apart(self, supervise):
        lines = []
        result = supervise("sh", "-c", "echo one; echo two >&2", merge_stderr=False, on_line=lines.append)
        assert (result.output, result.errors, lines) == (b"one\n", b"two\n", ["one"])

    def test_bytes_that_are_no_text(self, supervise):
        lines = []
        result = supervise("printf", r"\377\000a\r\nb", on_line=lines.append)
        assert lines == ["\ufffd\0a"]
        assert result.output == b"\xff\0a\r\nb"

    def test_a_line_without_end_is_bounded(self, supervise):
        lines = []
        tracemalloc.start()
        result = supervise(
            "head", "-c", "250000000", "/dev/zero",
            limits=Limits(60, max_bytes=1_000_000_000),
            on_line=lines.append,
        )  # fmt: skip
        peak_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert (result.cause, result.exit_status, lines) == (Cause.EXITED, 0, [])
        assert result.dropped_bytes == 250_000_000 - (256 + 64) * 1024
        assert peak_bytes < 4_000_000

    def test_a_child_that_closes_its_output_and_lives_on(self, supervise):
        result = supervise("sh", "-c", "exec >&- 2>&-; sleep 0.5; exit 7")
        assert (result.cause, result.exit_status) == (Cause.EXITED, 7)
        assert result.duration_seconds >= 0.5

    def test_it_keeps_up_with_a_benchmark_that_prints_all_the_time(self, supervise):
        """200,000 lines in a second: neither does the child wait for us, nor do we eat the core that it runs on."""
        script = (
            "import os, time\n"
            "block, longest, begin = b'1048576 262144 float sum\\n' * 4000, 0, time.monotonic()\n"
            "for number in range(50):\n"
            "    time.sleep(max(0, begin + number * 0.02 - time.monotonic()))\n"
            "    os.write(1, block)\n"
        )
        lines = 0

        def on_line(_line: str) -> bool:
            nonlocal lines
            lines += 1
            return True

        tracer = sys.gettrace()
        sys.settrace(None)  # a coverage tracer costs five times what is measured here
        try:
            cpu_before = time.thread_time()
            result = supervise("python3", "-c", script, on_line=on_line)
            cpu_seconds = time.thread_time() - cpu_before
        finally:
            sys.settrace(tracer)
        assert lines == 200_000
        # It takes 0.25 s of processor time.
        assert result.duration_seconds < 3
        assert cpu_seconds < 1


class TestCancellation:
    def test_it_wakes_the_supervisor_at_once(self, supervise):
        def seconds_from_cancel_to_return() -> float:
            cancellation = Cancellation()
            cancelled_at = []

            def cancel() -> None:
                cancelled_at.append(time.monotonic())
                cancellation.cancel(grace_seconds=0)

            def on_start(_pid, _ticks) -> None:
                threading.Timer(0.2, cancel).start()

            supervise("sleep", "60", cancellation=cancellation, on_start=on_start)
            return time.monotonic() - cancelled_at[0]

        assert min(seconds_from_cancel_to_return() for _ in range(3)) < 0.2

    def test_what_is_cancelled_before_it_starts_does_not_start(self, tmp_path, supervise):
        cancellation = Cancellation()
        cancellation.cancel(reason="paused")
        result = supervise("touch", "started", cancellation=cancellation)
        assert (result.cause, result.pid, result.detail) == (Cause.CANCELLED, None, "paused")
        assert not (tmp_path / "started").exists()

    def test_a_second_cancel_shortens_the_grace(self, supervise):
        cancellation = Cancellation()
        cancel_after(cancellation, 0.3, reason="the daemon stops", grace_seconds=30)
        cancel_after(cancellation, 0.6, reason="a user's job has started", grace_seconds=0)
        result = supervise("sh", "-c", "trap '' TERM; sleep 60", cancellation=cancellation)
        assert (result.cause, result.exit_status) == (Cause.CANCELLED, -signal.SIGKILL)
        assert result.detail == "the daemon stops; it ignored SIGTERM"
        assert result.duration_seconds < 5

    def test_one_cancellation_ends_every_run_that_watches_it(self, supervise):
        cancellation, other, results = Cancellation(), Cancellation(), []

        def start(watched: Cancellation, seconds: str) -> threading.Thread:
            thread = threading.Thread(
                target=lambda: results.append(supervise("sleep", seconds, cancellation=watched).cause)
            )
            thread.start()
            return thread

        threads = [start(cancellation, "60"), start(cancellation, "60"), start(other, "1.2")]
        time.sleep(0.3)
        cancellation.cancel()
        for thread in threads:
            thread.join(10)
        assert results == [Cause.CANCELLED, Cause.CANCELLED, Cause.EXITED]

    def test_a_stopped_child_takes_sigterm(self, supervise):
        cancellation = Cancellation()

        def on_start(pid, _ticks):
            os.kill(pid, signal.SIGSTOP)
            cancellation.cancel(grace_seconds=10)

        result = supervise("sleep", "60", cancellation=cancellation, on_start=on_start)
        assert (result.cause, result.exit_status) == (Cause.CANCELLED, -signal.SIGTERM)
        assert result.duration_seconds < 5


class TestDeathFromOutside:
    def test_a_sigkill_that_is_not_ours(self, supervise):
        result = supervise("sleep", "60", on_start=lambda pid, _ticks: os.kill(pid, signal.SIGKILL))
        assert (result.cause, result.exit_status) == (Cause.EXITED, -signal.SIGKILL)
        assert "out-of-memory killer" in result.detail

    @pytest.mark.parametrize("callback", ["on_start", "on_line"])
    def test_a_callback_that_raises_leaks_nothing(self, supervise, callback):
        def fail(*_arguments):
            raise LookupError("the store is gone")

        started = time.monotonic()
        with pytest.raises(LookupError, match="the store is gone"):
            supervise("sh", "-c", "trap '' TERM; setsid sleep 60 & echo row; sleep 60", **{callback: fail})
        assert time.monotonic() - started < 5

    def test_ctrl_c_leaks_nothing(self, supervise):
        # Whoever started us in the background had SIGINT ignored, and Python leaves it so.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with pytest.raises(KeyboardInterrupt):
                supervise("sleep", "60", on_start=lambda _pid, _ticks: signal.raise_signal(signal.SIGINT))
        finally:
            signal.signal(signal.SIGINT, before)
