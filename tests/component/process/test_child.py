"""What a child gets from the trampoline, and what is said when it cannot become the command."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from benchmark_stand_in import Ending, Grandchild, Script, calls_of

from gpumond.model.run import Cause
from gpumond.process import child
from gpumond.process.leftovers import kill_leftover
from gpumond.process.procfs import process_is_alive, read_stat
from gpumond.process.supervisor import Command, Limits


def executable(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    path.chmod(0o755)
    return path


def elf_of_another_machine(directory: Path) -> Path:
    """/bin/sh, said to be for a processor that never was (e_machine, bytes 18 and 19)."""
    content = bytearray(Path("/bin/sh").resolve().read_bytes())
    content[18:20] = b"\xfe\xca"
    return executable(directory / "all_reduce_perf", bytes(content))


def holding(content: bytes):
    return lambda directory: executable(directory / "all_reduce_perf", content)


NO_PROGRAM = "{0} is no program for this machine ("


class TestWhatCannotStart:
    @pytest.mark.parametrize(
        ("make", "detail"),
        [
            (lambda d: d / "absent", "{0} does not exist; install it, or correct its path"),
            (lambda _: "all_reduce_perf", "{0} is not on PATH; install it, or configure its full path"),
            (lambda d: d, "{0} is a directory, not a program; correct the path"),
            (lambda _: "/etc/passwd", "{0} is not executable for this user; run `chmod +x {0}`"),
            (lambda _: "/etc/passwd/x", "{0} does not exist; install it, or correct its path"),
            (elf_of_another_machine, NO_PROGRAM),
            (holding(b"no script"), NO_PROGRAM),
            (holding(b""), NO_PROGRAM),
            (
                holding(b"#!/opt/absent/python\n"),
                "the interpreter or loader that {0} asks for does not exist;",
            ),
            (holding(b"#!/etc/passwd\n"), "{0} may not be run: its file system is mounted noexec, or its"),
        ],
    )
    def test_the_program(self, tmp_path, supervise, make, detail):
        program = make(tmp_path)
        started = []
        result = supervise(program, on_start=lambda *identity: started.append(identity))
        assert result.cause is Cause.NOT_STARTED
        assert result.detail.startswith(detail.format(program))
        assert (result.exit_status, result.output, started) == (None, b"", [])

    def test_the_directory(self, tmp_path, supervise):
        result = supervise("true", directory=tmp_path / "absent")
        assert result.cause is Cause.NOT_STARTED
        assert result.detail == f"the working directory {tmp_path / 'absent'} does not exist; create it"

    def test_too_many_arguments(self, supervise):
        result = supervise("true", "x" * 200_000)
        assert result.cause is Cause.NOT_STARTED
        assert result.detail == "true got too many arguments or too large an environment; shorten them"

    @pytest.mark.parametrize(
        ("argv", "environment"), [(("true", "a\0b"), {}), (("true",), {"NCCL_DEBUG": "a\0b"})]
    )
    def test_a_nul_byte(self, supervise, argv, environment):
        result = supervise(*argv, environment=environment)
        assert result.cause is Cause.NOT_STARTED
        assert "; correct its arguments and environment" in result.detail

    def test_a_program_that_exits_as_a_failed_exec_would(self, supervise):
        result = supervise("sh", "-c", f"exit {127}")
        assert (result.cause, result.exit_status) == (Cause.EXITED, 127)

    def test_no_file_descriptor_left(self, tmp_path):
        """In a process of its own, which may ruin its limits."""
        result = in_another_process(
            tmp_path,
            """
            import resource
            used = len(os.listdir("/proc/self/fd"))
            resource.setrlimit(resource.RLIMIT_NOFILE, (used + 3, used + 3))
            result = start("true")
            print(result.cause, result.detail)
            """,
        )
        assert result.stdout.startswith("not_started no process could be made (Too many open files); raise")

    @pytest.mark.parametrize(
        ("python", "why"), [("/bin/false", "no message"), ("/absent/python", "No such file")]
    )
    def test_a_python_that_does_not_run_is_not_the_programs_fault(self, tmp_path, python, why):
        result = in_another_process(
            tmp_path,
            f"""
            import time
            from gpumond.process.supervisor import Cancellation

            class LateCancellation(Cancellation):
                def watch(self):
                    time.sleep(0.3)  # the child is gone before anything is watched: one event closes the next
                    return super().watch()

            sys.executable = {python!r}
            command = Command(("true",), {{"PATH": "/bin"}}, Path("/"))
            result = run(command, Limits(60), clock=SystemClock(), cancellation=LateCancellation())
            print(result.cause, result.detail)
            """,
        )
        assert result.stdout.startswith("not_started the process could not be prepared (")
        assert why in result.stdout
        assert "repair the Python that runs gpumond" in result.stdout

    def test_a_daemon_that_ignores_sigchld_loses_the_status_and_nothing_else(self, tmp_path):
        result = in_another_process(
            tmp_path,
            """
            import signal
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
            result = start("sh", "-c", "echo fine; exit 3")
            print(result.cause, result.exit_status, result.output, result.detail)
            """,
        )
        assert result.stdout == (
            "exited None b'fine\\n' ended, but who traces it, or an ignored SIGCHLD, has its exit status\n"
        )

    def test_a_command_needs_a_program(self):
        with pytest.raises(ValueError, match="at least a program"):
            Command((), {}, Path("/"))


class TestWhatItGets:
    def test_exactly_the_given_environment_and_the_marker(self, supervise):
        result = supervise(
            "env", environment={"PATH": "/usr/bin:/bin", "NCCL_DEBUG": "WARN", "ÄRGER": "ü=1\nx"}
        )
        marker = child.marker_of(result.pid, result.start_ticks, child.boot_id())
        assert sorted(result.output.decode().splitlines()) == sorted(
            ["PATH=/usr/bin:/bin", "NCCL_DEBUG=WARN", "ÄRGER=ü=1", "x", f"GPUMOND_CHILD={marker}"]
        )

    def test_its_own_session_and_working_directory(self, tmp_path, supervise):
        result = supervise("sh", "-c", "cut -d' ' -f5,6 /proc/self/stat; pwd")
        assert result.output.decode().split() == [str(result.pid), str(result.pid), str(tmp_path)]

    def test_an_empty_standard_input(self, supervise):
        assert supervise("wc", "-c").output == b"0\n"

    def test_no_core_file_a_tight_umask_a_limit_on_files(self, supervise):
        script = "ulimit -Hc; umask; head -c 5000 /dev/zero > spool; echo $?; wc -c < spool"
        limits = Limits(10, file_bytes_max=2048)
        result = supervise("sh", "-c", script, limits=limits, merge_stderr=False)
        assert result.output.decode().split() == ["0", "0077", str(128 + signal.SIGXFSZ), "2048"]

    def test_signals_as_a_shell_gives_them(self, supervise):
        """A daemon ignores or blocks signals for its own reasons; a benchmark that inherits that cannot be ended."""
        old_handler = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR1})
        try:
            result = supervise("grep", "-E", "Sig(Blk|Ign)", "/proc/self/status")
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)
            signal.signal(signal.SIGHUP, old_handler)
        blocked, ignored = (int(line.split()[1], 16) for line in result.output.splitlines())
        # The C library keeps two signals (NPTL) from every program: who started us may have left them ignored.
        reserved = 1 << (32 - 1) | 1 << (33 - 1)
        assert (blocked & ~reserved, ignored & ~reserved) == (0, 0)

    def test_no_file_descriptor_but_those_passed(self, tmp_path, supervise):
        with (tmp_path / "lock").open("w") as lock, (tmp_path / "other").open("w") as other:
            os.set_inheritable(other.fileno(), True)
            result = supervise("sh", "-c", "ls /proc/$$/fd", pass_fds=(lock.fileno(),))
            passed = str(lock.fileno())
        assert set(result.output.decode().split()) == {"0", "1", "2", passed}

    def test_its_library_path_does_not_meet_our_python(self, tmp_path, supervise):
        """A broken libffi on a benchmark's LD_LIBRARY_PATH: the trampoline needs ctypes, the benchmark does not."""
        for version in (6, 7, 8):
            (tmp_path / f"libffi.so.{version}").write_text("not a library")
        result = supervise("echo", "fine", environment={"PATH": "/bin", "LD_LIBRARY_PATH": str(tmp_path)})
        assert (result.cause, result.output) == (Cause.EXITED, b"fine\n")


def in_another_process(directory: Path, script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(another_process(directory, script), capture_output=True, text=True, check=True)


def another_process(directory: Path, script: str) -> list[str]:
    """A Python that knows `start(*argv)`, which supervises a command in `directory`."""
    prologue = f"""
        import os, sys
        from pathlib import Path
        from gpumond.clock import SystemClock
        from gpumond.process.supervisor import Command, Limits, run

        def start(*argv, **options):
            command = Command(argv, {{"PATH": "/usr/bin:/bin"}}, Path({str(directory)!r}), **options)
            return run(command, Limits(60), clock=SystemClock())
        """
    return [sys.executable, "-c", textwrap.dedent(prologue) + textwrap.dedent(script)]


class TestDeathOfTheParent:
    @pytest.fixture
    def orphan(self, tmp_path, benchmark_stand_in, eventually):
        """`orphan(script, ...)`: a stand-in whose supervising process was killed with SIGKILL; its pid and ticks."""

        def make(script: Script, *, pass_fds: tuple[int, ...] = ()) -> tuple[int, int]:
            binary = benchmark_stand_in(tmp_path / "bin", {"all_reduce_perf": script}) / "all_reduce_perf"
            command = another_process(
                tmp_path, f"start({str(binary)!r}, '-b', '1M', '-e', '1M', '-g', '2', pass_fds={pass_fds!r})"
            )
            with subprocess.Popen(command, pass_fds=pass_fds) as daemon:
                eventually(lambda: calls_of(binary))
                pid = calls_of(binary)[0]["pid"]
                stat = read_stat(pid)
                time.sleep(0.1)  # until its grandchildren have become daemons
                daemon.kill()
            return pid, stat.start_ticks

        return make

    def test_the_benchmark_dies_with_it(self, orphan, eventually):
        pid, start_ticks = orphan(Script(ending=Ending.HANG, ignore_sigterm=True))
        eventually(lambda: not process_is_alive(pid, start_ticks))

    @pytest.mark.parametrize("grandchild", list(Grandchild))
    def test_what_the_benchmark_had_started_is_found_at_the_next_start(
        self, orphan, eventually, living, clock, grandchild
    ):
        pid, start_ticks = orphan(Script(ending=Ending.HANG, grandchild=grandchild))
        eventually(lambda: not process_is_alive(pid, start_ticks))
        left = living()
        assert len(left) == 1
        report = kill_leftover(pid, start_ticks, clock=clock)
        assert (set(report.killed), report.remaining) == (left, ())

    def test_a_passed_lock_lives_as_long_as_the_orphan(self, tmp_path, orphan, eventually, clock):
        with (tmp_path / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            pid, start_ticks = orphan(
                Script(ending=Ending.HANG, grandchild=Grandchild.SETSID), pass_fds=(lock.fileno(),)
            )
        eventually(lambda: not process_is_alive(pid, start_ticks))
        with (tmp_path / "lock").open("w") as lock:
            with pytest.raises(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            kill_leftover(pid, start_ticks, clock=clock)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_trampoline_whose_parent_is_gone_does_not_start_anything(tmp_path):
    """The parent may end before the trampoline has asked to be told."""
    read_fd, write_fd = os.pipe()
    environment = (tmp_path / "environment").open("w+b")
    with environment, os.fdopen(read_fd, "rb") as report:
        stranger = str(os.getpid() + 1)
        numbers = [stranger, str(environment.fileno()), str(write_fd), "-1", "63", "-1"]
        result = subprocess.run(
            [sys.executable, "-I", "-S", child.__file__, *numbers, "--", "touch", str(tmp_path / "started")],
            pass_fds=(environment.fileno(), write_fd),
            capture_output=True,
            check=False,
        )
        os.close(write_fd)
        assert report.read() == b""
    assert (result.returncode, result.stderr) == (1, b"the parent is gone\n")
    assert not (tmp_path / "started").exists()


def test_a_report_of_a_failed_exec_holds_its_errno(tmp_path):
    read_fd, write_fd = os.pipe()
    environment = (tmp_path / "environment").open("w+b")
    with environment, os.fdopen(read_fd, "rb") as report:
        numbers = [str(os.getpid()), str(environment.fileno()), str(write_fd), "-1", "63", "-1"]
        result = subprocess.run(
            [sys.executable, "-I", "-S", child.__file__, *numbers, "--", str(tmp_path)],
            pass_fds=(environment.fileno(), write_fd),
            check=False,
        )
        os.close(write_fd)
        assert report.read() == child.READY + b"%d\n" % errno.EACCES
    assert result.returncode == 127
