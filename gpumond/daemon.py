"""The composition root: puts the parts together, obeys signals and requests, ends in order. Decides nothing else.

Start: lock, store, what a dead daemon left, restored results, first snapshot, HTTP, schedule, READY. Stop: nothing new
starts, the running benchmark is ended, the threads come home, the store is closed. Signals only set flags.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import FrameType

from gpumond import __version__
from gpumond.appointments import Appointments
from gpumond.assembly import (
    RUNS_DIRECTORY,
    daemon_lock_file,
    make_kernel_log,
    make_launcher,
    make_lost_benchmarks,
    make_runner,
    make_sweep_context,
    make_textfile,
    make_web_access,
)
from gpumond.board import StatusBoard
from gpumond.clock import Clock
from gpumond.config.load import diff, load
from gpumond.config.schema import Config
from gpumond.errors import ConfigError, ExitCode, StoreError
from gpumond.exporter.http import HttpServer
from gpumond.exporter.web.access import WebAccess
from gpumond.guards.lock import hold_lock
from gpumond.guards.quiet import QuietLog
from gpumond.log import configure as configure_log
from gpumond.log import get_logger
from gpumond.model.status import HostStatus
from gpumond.monitor.topology import TopologyMonitor
from gpumond.requests import Requests
from gpumond.schedule.engine import Lane, ScheduleEngine
from gpumond.store.retention import RetentionPolicy
from gpumond.store.sqlite import Store
from gpumond.sweep.context import SweepContext
from gpumond.sweep.plan import resolve_gpu_sets
from gpumond.sweep.recovery import end_abandoned, remove_abandoned_files, take_over_cgroup
from gpumond.sweep.service import RunnerFactory, SweepService
from gpumond.sweep.specs import gpu_set_rules, sweep_specs
from gpumond.systemd import Notifier
from gpumond.timetable import cadence_of

log = get_logger("daemon")

TICK_SECONDS = 1.0
"""Requests are obeyed within 2 s (DESIGN rule 2)."""

HEARTBEAT_SECONDS_MAX = 120.0
"""A scheduler that has been silent for four heartbeats is stuck: systemd is no longer told that all is well."""

RETENTION_INTERVAL_SECONDS = 86_400.0


class Daemon:
    """One gpumond on one host. `run` is called once, on the main thread.

    `override` is what the command line says over the file, also when that is read again.
    """

    def __init__(
        self,
        config: Config,
        *,
        clock: Clock,
        config_file: Path | None = None,
        override: Callable[[Config], Config] = lambda config: config,
        on_ready: Callable[[Daemon], None] = lambda _daemon: None,
        notifier: Notifier | None = None,
    ) -> None:
        self._config = config
        self._config_file = config_file
        self._override = override
        self._clock = clock
        self._on_ready = on_ready
        self._notifier = notifier or Notifier(os.environ)
        self._wake = threading.Event()
        self._is_stopping = False
        self._must_reload = False
        self._quiet_log = QuietLog()
        self._lost = make_lost_benchmarks(config)
        now = clock.now()
        self.board = StatusBoard(
            HostStatus(
                version=__version__,
                started_at=now,
                config_loaded_at=now,
                simulated=config.simulate.scenario if config.simulate else "",
            )
        )
        self._http = HttpServer(
            host=config.web.listen_address.host,
            port=config.web.listen_address.port,
            board=self.board,
            clock=clock,
            open_history=partial(Store.open, config.store.directory, clock=clock, read_only=True),
            access=make_web_access(config, clock),
        )
        self._textfile = make_textfile(config, board=self.board, clock=clock)

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens; only while it is ready."""
        return self._http.address

    def stop(self) -> None:
        """Ask it to end; safe from any thread and from a signal handler."""
        self._is_stopping = True
        self._wake.set()

    def reload(self) -> None:
        """Ask it to read its configuration again; safe from any thread and from a signal handler."""
        self._must_reload = True
        self._wake.set()

    def run(self) -> ExitCode:
        """Live until `stop`. Raises what makes a start impossible: LockedError, StoreError, HostError, UsageError."""
        lock_file = daemon_lock_file(self._config)
        launcher = make_launcher(self._config, self._clock)
        with (
            self._signals(),
            Store.open(self._config.store.directory, clock=self._clock) as store,
            hold_lock(lock_file, purpose="daemon", clock=self._clock),
        ):
            self._store = store
            self._runs_cgroup = take_over_cgroup(self._clock, self._lost)
            self._monitor = TopologyMonitor(
                launcher=launcher,
                store=store,
                board=self.board,
                clock=self._clock,
                interval_seconds=self._config.snapshot.interval,
                errors_every=self._config.snapshot.errors_every,
                resolve_sets=lambda snapshot: resolve_gpu_sets(
                    gpu_set_rules(self._config).values(), snapshot
                ),
            )
            self._kernel_log = make_kernel_log(self._config, store=store, board=self.board, clock=self._clock)
            self._sweeps = SweepService(
                self._sweep_context(self._config),
                specs=sweep_specs(self._config),
                cadences={sweep.name: cadence_of(sweep) for sweep in self._config.sweeps},
                board=self.board,
                runner_for=self._runner_for(self._config),
            )
            self._schedule = ScheduleEngine(
                self._clock, on_clock_step=lambda _seconds: self._appointments.arm_all()
            )
            self._appointments = Appointments(
                lambda: self._config.sweeps,
                store=store,
                sweeps=self._sweeps,
                schedule=self._schedule,
                board=self.board,
                clock=self._clock,
            )
            self._requests = Requests(
                store=store,
                sweeps=self._sweeps,
                monitor=self._monitor,
                schedule=self._schedule,
                clock=self._clock,
                take_snapshot=self._take_snapshot,
            )
            self._live()
        return ExitCode.HEALTHY

    def _live(self) -> None:
        self._restore()
        self._take_snapshot()
        self._show_unkillable()
        self._sweeps.restore()  # again: what a sweep may take depends on the GPUs of its sets
        if self._config.web.enabled:
            self._http.start()
        try:
            self._start_schedule()
            self.board.update(lambda status: replace(status, is_ready=True))
            if self._textfile is not None:
                self._textfile.write()
            self._notifier.send("READY=1", f"STATUS={self._outlets()}")
            log.info(
                "daemon_ready",
                version=__version__,
                outlets=self._outlets(),
                simulated=self.board.status.simulated,
            )
            self._on_ready(self)
            self._loop()
        finally:
            self._end()

    def _restore(self) -> None:
        store = self._store
        if store.recovered_from is not None:
            log.error(
                "store_was_damaged",
                moved_to=str(store.recovered_from.path),
                reason=store.recovered_from.reason,
            )
        end_abandoned(store, self._config.benchmark.lock_file, self._clock, self._lost)
        store.fail_abandoned_requests()
        self._monitor.restore()
        self._kernel_log.restore()
        remove_abandoned_files(store, self._config.store.directory / RUNS_DIRECTORY)
        self._sweeps.restore()

    def _start_schedule(self) -> None:
        schedule = self._schedule
        schedule.heartbeat(self._beat)
        schedule.every("snapshot", self._config.snapshot.interval, self._take_snapshot, lane=Lane.MONITOR)
        schedule.every("retention", RETENTION_INTERVAL_SECONDS, self._apply_retention, lane=Lane.MONITOR)
        if self._textfile is not None:
            interval = self._textfile.interval_seconds
            schedule.every("textfile", interval, self._textfile.write, lane=Lane.CONTROL)
        self._appointments.arm_all()
        schedule.start()
        self._beat()
        for sweep in self._config.sweeps:
            if sweep.run_at_start:
                self._appointments.run_soon(sweep)

    def _loop(self) -> None:
        while not self._is_stopping:
            self._wake.wait(TICK_SECONDS)
            self._wake.clear()
            if self._must_reload:
                self._must_reload = False
                self._reload()
            self._requests.obey()
            self._show_unkillable()
            self._feed_watchdog()

    def _show_unkillable(self) -> None:
        pids = (*self._monitor.unkillable_pids, *self._lost.living_pids)
        if pids != self.board.status.unkillable_pids:
            self.board.update(lambda status: replace(status, unkillable_pids=pids))
            log.warning("unkillable_processes", pids=list(pids))

    def _end(self) -> None:
        self._notifier.send("STOPPING=1", "STATUS=ending")
        log.info("daemon_stopping")
        self._schedule.stop(lambda: self._sweeps.stop("gpumond is stopping"))
        self._http.stop()
        if self._textfile is not None:
            self._textfile.remove()
        log.info("daemon_stopped")

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """SIGTERM and SIGINT end, SIGHUP reloads; only where we are the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def on_signal(number: int, _frame: FrameType | None) -> None:
            self.reload() if number == signal.SIGHUP else self.stop()

        numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        before = {number: signal.signal(number, on_signal) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    # What the schedule calls

    def _beat(self) -> None:
        now = self._clock.now()
        self.board.update(lambda status: replace(status, heartbeat_at=now))
        is_writable = self._is_store_writable()
        if is_writable != self.board.status.is_store_writable:
            log.info("store_writable", is_writable=is_writable)
            self.board.update(lambda status: replace(status, is_store_writable=is_writable))

    def _is_store_writable(self) -> bool:
        try:
            self._store.check_writable()
        except StoreError as error:
            log.warning("store_not_writable", error=error.message, hint=error.hint)
            return False
        return True

    def _take_snapshot(self) -> None:
        # A probe beside a benchmark costs the benchmark some of its bandwidth, and would find busy GPUs anyway.
        if not self._sweeps.is_measuring:
            result = self._monitor.take()
            if self._config.snapshot.kernel_log:
                self._kernel_log.take(interval_seconds=self._config.snapshot.interval)
            if result.snapshot is not None:
                self._quiet_log.record_snapshot(result.snapshot, at=self._clock.monotonic())
            self._appointments.arm_asked()

    def _apply_retention(self) -> None:
        keep = self._config.store
        report = self._store.apply_retention(
            self._clock.now(),
            RetentionPolicy(
                success_output=timedelta(seconds=keep.keep_output),
                failure_output=timedelta(seconds=keep.keep_failed_output),
                results=timedelta(seconds=keep.keep_points),
            ),
        )
        log.info("retention_applied", runs=report.runs, outputs=report.outputs, snapshots=report.snapshots)

    # Sweeps

    def _sweep_context(self, config: Config) -> SweepContext:
        return make_sweep_context(
            config,
            store=self._store,
            clock=self._clock,
            take_snapshot=self._monitor.snapshot_for_sweep,
            quiet_log=self._quiet_log,
            runs_cgroup=self._runs_cgroup,
            lost=self._lost,
        )

    def _runner_for(self, config: Config) -> RunnerFactory:
        return partial(
            make_runner,
            config,
            config_file=self._config_file,
            count_gpus=lambda: len(self.board.status.inventory),
        )

    def _feed_watchdog(self) -> None:
        if self._notifier.watchdog_seconds is None:
            return
        heartbeat = self.board.status.heartbeat_at
        age = (self._clock.now() - heartbeat).total_seconds() if heartbeat else 0.0
        if age < HEARTBEAT_SECONDS_MAX and (self._http.is_alive or not self._config.web.enabled):
            self._notifier.send("WATCHDOG=1")

    def _reload(self) -> None:
        """All or nothing: a file with a mistake leaves everything as it was, and the status says so."""
        self._notifier.send("RELOADING=1", f"MONOTONIC_USEC={int(self._clock.monotonic() * 1_000_000)}")
        try:
            config = self._override(load(self._config_file)) if self._config_file else self._config
            self._apply(config, make_web_access(config, self._clock))
        except ConfigError as error:
            log.error("reload_failed", error=error.message, hint=error.hint)  # noqa: TRY400 - a sentence, no trace
            self.board.update(lambda status: replace(status, is_config_current=False))
        finally:
            self._notifier.send("READY=1", f"STATUS={self._status_line()}")

    def _apply(self, new: Config, access: WebAccess) -> None:
        change = diff(self._config, new)
        if change.needs_restart:
            log.warning("restart_needed", keys=list(change.needs_restart))
        config = _with_fixed_keys(self._config, new)
        removed = {sweep.name for sweep in self._config.sweeps} - {sweep.name for sweep in config.sweeps}
        for name in removed:
            self._appointments.cancel(name)
        self._config = config
        self._http.configure(access)
        self._monitor.configure(
            launcher=make_launcher(config, self._clock),
            interval_seconds=config.snapshot.interval,
            errors_every=config.snapshot.errors_every,
        )
        configure_log(level=config.log.level.value, form=config.log.format.value)
        self._sweeps.configure(
            self._sweep_context(config),
            specs=sweep_specs(config),
            cadences={sweep.name: cadence_of(sweep) for sweep in config.sweeps},
            runner_for=self._runner_for(config),
        )
        self._schedule.every("snapshot", config.snapshot.interval, self._take_snapshot, lane=Lane.MONITOR)
        self._appointments.arm_all()
        now = self._clock.now()
        self.board.update(lambda status: replace(status, is_config_current=True, config_loaded_at=now))
        log.info("reload_done", changed=list(change.changed))

    def _outlets(self) -> str:
        """Where the metrics can be had."""
        host, port = self.address if self._config.web.enabled else ("", 0)
        ways = [f"listening on {host}:{port}"] if self._config.web.enabled else []
        if self._config.textfile is not None:
            ways.append(f"writing {self._config.textfile.file}")
        return ", ".join(ways) or "without a port and without a file: nobody sees the metrics"

    def _status_line(self) -> str:
        if not self.board.status.is_config_current:
            return "running with the old configuration: the new one has mistakes, see the log"
        return "configuration reloaded"


def _with_fixed_keys(old: Config, new: Config) -> Config:
    """`new`, but with the old values of what only a restart can change."""
    return new.model_copy(
        update={
            "store": new.store.model_copy(update={"directory": old.store.directory}),
            "web": new.web.model_copy(
                update={"listen_address": old.web.listen_address, "enabled": old.web.enabled}
            ),
            "textfile": old.textfile,
            "benchmark": new.benchmark.model_copy(update={"lock_file": old.benchmark.lock_file}),
            "simulate": old.simulate,
        }
    )
