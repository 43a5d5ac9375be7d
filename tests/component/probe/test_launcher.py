"""The launcher with real children in place of the probe: each misbehaves in one way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gpumond import codec
from gpumond.clock import SystemClock
from gpumond.model.reading import NOT_SUPPORTED, Unreadable, UnreadableReason, Value
from gpumond.model.run import Cause
from gpumond.model.topology import SNAPSHOT_SCHEMA, Host, Snapshot
from gpumond.probe import launcher as launcher_module
from gpumond.probe.launcher import ProbeFailure, ProbeLauncher, default_probe_command
from gpumond.process.procfs import ProcessIdentity
from gpumond.process.supervisor import Cancellation, ProcessResult

ENVIRONMENT = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
PATIENT_SECONDS = 30.0
HASTY_SECONDS = 0.5


def empty_snapshot() -> Snapshot:
    missing = Unreadable(UnreadableReason.NO_LIBRARY, "nvmlInit: LIBRARY_NOT_FOUND (12)")
    return Snapshot(
        taken_at=datetime(2026, 11, 29, tzinfo=UTC),
        host=Host("6.8.0", "boot", 100.0, 32, NOT_SUPPORTED, missing, missing, missing, Value(True)),
        vendor=None,
        driver=missing,
        gpus=(),
        silent_gpus=(),
        pairs=(),
        nics=(),
        duration_seconds=0.1,
    )


DOCUMENT = codec.encode(empty_snapshot())


@pytest.fixture
def child(tmp_path: Path):
    """The command line of a child that runs the given Python; `document` is what a good probe prints."""
    (tmp_path / "document.json").write_bytes(DOCUMENT)

    def command(source: str) -> tuple[str, ...]:
        script = tmp_path / "child.py"
        script.write_text(
            "import os, pathlib, signal, sys, time\n"
            f"document = pathlib.Path({str(tmp_path / 'document.json')!r}).read_bytes()\n"
            + textwrap.dedent(source)
        )
        return (sys.executable, "-I", "-S", str(script))

    return command


def launcher(command: tuple[str, ...], deadline_seconds: float = PATIENT_SECONDS) -> ProbeLauncher:
    return ProbeLauncher(command, ENVIRONMENT, deadline_seconds=deadline_seconds, clock=SystemClock())


def test_a_good_child_gives_its_snapshot(child):
    result = launcher(child("sys.stdout.buffer.write(document)")).take()
    assert (result.snapshot, result.failure, result.detail) == (empty_snapshot(), None, "")
    assert result.duration_seconds > 0
    assert result.cpu_seconds is not None


def test_what_it_says_on_stderr_does_not_spoil_the_document(child):
    result = launcher(
        child("print('a library says hello', file=sys.stderr); sys.stdout.buffer.write(document)")
    ).take()
    assert result.snapshot == empty_snapshot()


def test_error_counters_are_asked_for_only_when_wanted(child):
    source = (
        "sys.stdout.buffer.write(document) if '--with-errors' in sys.argv else sys.exit('no errors wanted')"
    )
    command = child(source)
    assert launcher(command).take(with_errors=True).snapshot is not None
    assert "no errors wanted" in launcher(command).take().detail


def test_a_child_that_hangs_is_ended_at_its_deadline(child):
    result = launcher(child("time.sleep(600)"), HASTY_SECONDS).take()
    assert result.failure is ProbeFailure.TIMEOUT
    assert result.snapshot is None
    assert "did not end within 0.5 s" in result.detail
    assert result.duration_seconds < 10


def test_a_child_that_ignores_sigterm_is_killed(child, tmp_path, monkeypatch):
    monkeypatch.setattr(launcher_module, "GRACE_SECONDS", 0.2)
    source = f"""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        pathlib.Path({str(tmp_path / "pid")!r}).write_text(str(os.getpid()))
        time.sleep(600)
    """
    result = launcher(child(source), 1.0).take()
    assert result.failure is ProbeFailure.TIMEOUT
    assert "ignored SIGTERM" in result.detail
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text()}").exists()


def test_a_child_that_floods_stdout_is_ended_and_costs_bounded_memory(child, monkeypatch):
    monkeypatch.setattr(launcher_module, "DOCUMENT_BYTES_MAX", 1024 * 1024)
    result = launcher(child("while True: os.write(1, b'[' * 65536)")).take()
    assert result.failure is ProbeFailure.TOO_LARGE
    assert "1048576 bytes" in result.detail


@pytest.mark.parametrize(
    "source",
    [
        "print('nvidia-smi has failed because it could not communicate with the NVIDIA driver')",
        "pass",
        "os.write(1, bytes(range(256)))",
        "os.write(1, document[: len(document) // 2])",
        "os.write(1, document + document)",
        "os.write(1, b'hello from a library\\n' + document)",
        "os.write(1, b'{\"schema\": 1}')",
        "os.write(1, b'[' * 100_000)",
    ],
    ids=["words", "nothing", "binary", "half", "twice", "polluted", "empty", "deep"],
)
def test_what_is_no_snapshot_is_malformed(child, source):
    result = launcher(child(source)).take()
    assert result.failure is ProbeFailure.MALFORMED
    assert result.snapshot is None
    assert result.detail.startswith("the probe's answer cannot be used: ")


@pytest.mark.parametrize(
    "rest", ["", ", b'\"taken_at\":', b'\"read_at\":'"], ids=["same shape", "other shape"]
)
def test_a_document_of_a_newer_gpumond_is_named_as_such(child, rest):
    newer = f"b'\"schema\":{SNAPSHOT_SCHEMA}', b'\"schema\":{SNAPSHOT_SCHEMA + 1}'"
    renamed = f".replace({rest.removeprefix(', ')})" if rest else ""
    result = launcher(child(f"os.write(1, document.replace({newer}){renamed})")).take()
    assert result.failure is ProbeFailure.MALFORMED
    assert f"its schema {SNAPSHOT_SCHEMA + 1} is newer than {SNAPSHOT_SCHEMA}" in result.detail


def test_a_traceback_is_told_by_its_last_line(child):
    result = launcher(child("raise RuntimeError('the GPU is on fire')")).take()
    assert result.failure is ProbeFailure.CRASHED
    assert result.detail == "the probe exited with status 1: RuntimeError: the GPU is on fire"


def test_a_segmentation_fault_is_told_by_its_signal(child):
    result = launcher(child("os.kill(os.getpid(), signal.SIGSEGV)")).take()
    assert result.failure is ProbeFailure.CRASHED
    assert "SIGSEGV" in result.detail


def test_a_document_before_a_crash_does_not_count(child):
    """The library may have crashed while it was being closed, but nobody knows what it had answered until then."""
    result = launcher(child("sys.stdout.buffer.write(document); sys.stdout.flush(); os.abort()")).take()
    assert result.failure is ProbeFailure.CRASHED
    assert result.snapshot is None


def test_a_program_that_is_not_there_was_not_started(tmp_path):
    result = launcher((str(tmp_path / "nothing"),)).take()
    assert result.failure is ProbeFailure.NOT_STARTED
    assert "nothing does not exist" in result.detail


def test_a_cancelled_probe_gives_way_at_once(child):
    cancellation = Cancellation()
    timer = threading.Timer(0.2, cancellation.cancel, kwargs={"reason": "the daemon stops"})
    timer.start()
    result = launcher(child("time.sleep(600)")).take(cancellation=cancellation)
    timer.join()
    assert result.failure is ProbeFailure.CANCELLED
    assert "the daemon stops" in result.detail


def test_never_two_probes_at_once(child, tmp_path):
    source = f"""
        mark = pathlib.Path({str(tmp_path / "running")!r})
        mark.touch(exist_ok=False)
        time.sleep(0.2)
        mark.unlink()
        sys.stdout.buffer.write(document)
    """
    one = launcher(child(source))
    results = []
    threads = [threading.Thread(target=lambda: results.append(one.take())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [result.detail for result in results] == ["", "", ""]


class LostChild:
    """The supervisor's edge with a child that survives SIGKILL: only a kernel can make a real one."""

    def __init__(self):
        self.started = 0
        self.is_there = True

    def run(self, *_, **__):
        self.started += 1
        return ProcessResult(
            cause=Cause.LOST,
            exit_status=None,
            pid=4242,
            start_ticks=1000,
            duration_seconds=21.0,
            output=b"",
            detail="still there 10 s after SIGKILL: pid 4242 (1 x D in nv_wait)",
            leftovers=(ProcessIdentity(4242, 1000),),
        )

    def is_alive(self, pid, start_ticks):
        return self.is_there and (pid, start_ticks) == (4242, 1000)


def test_a_probe_that_survives_sigkill_blocks_until_that_very_process_is_gone():
    lost = LostChild()
    blocked = ProbeLauncher(
        ("probe",), {}, deadline_seconds=10, clock=SystemClock(), run=lost.run, is_alive=lost.is_alive
    )
    assert blocked.unkillable_pids == ()

    first = blocked.take()
    assert first.failure is ProbeFailure.TIMEOUT
    assert first.detail == "the probe is still there 10 s after SIGKILL: pid 4242 (1 x D in nv_wait)"
    assert blocked.unkillable_pids == (4242,)

    second = blocked.take()
    assert second.failure is ProbeFailure.BLOCKED
    assert "4242" in second.detail
    assert lost.started == 1

    lost.is_there = False
    assert blocked.unkillable_pids == ()
    assert blocked.take().failure is ProbeFailure.TIMEOUT
    assert lost.started == 2


def test_a_lost_probe_is_remembered_by_the_launcher_after_a_restart_and_no_longer_than_the_boot(tmp_path):
    memory = tmp_path / "probe.lost"
    lost = LostChild()

    def launcher():
        return ProbeLauncher(
            ("probe",),
            {},
            deadline_seconds=10,
            clock=SystemClock(),
            memory_file=memory,
            run=lost.run,
            is_alive=lost.is_alive,
        )

    launcher().take()
    again = launcher()
    assert again.unkillable_pids == (4242,)
    assert again.take().failure is ProbeFailure.BLOCKED
    assert lost.started == 1

    text = memory.read_text()
    memory.write_text(text.replace(json.loads(text)["boot_id"], "another boot"))
    assert launcher().unkillable_pids == ()
    memory.write_text("{")
    assert launcher().unkillable_pids == ()

    memory.write_text(text)
    lost.is_there = False
    freed = launcher()
    freed._run = lambda *_, **__: ProcessResult(
        cause=Cause.NOT_STARTED,
        exit_status=None,
        pid=None,
        start_ticks=None,
        duration_seconds=0.0,
        output=b"",
    )
    freed.take()
    assert not memory.exists()


def test_the_default_command_starts_from_any_directory_and_environment(tmp_path, monkeypatch):
    """Isolated: neither a PYTHONPATH nor a module beside us can get into the probe."""
    (tmp_path / "gpumond.py").write_text("raise SystemExit('the wrong gpumond')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    environment = {**ENVIRONMENT, "PYTHONPATH": str(tmp_path)}
    result = ProbeLauncher(
        default_probe_command(), environment, deadline_seconds=PATIENT_SECONDS, clock=SystemClock()
    ).take()
    assert result.failure is None, result.detail
    assert result.snapshot is not None


def test_the_launcher_imports_no_gpu_library():
    source = (
        "import sys, gpumond.probe.launcher\n"
        "print(sorted({'pynvml', 'amdsmi', 'torch', 'gpumond.probe.nvml'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-I", "-c", source], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
