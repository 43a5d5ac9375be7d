"""A disk without room: a clear error, nothing half stored, everything readable, and on it goes when there is room."""

from __future__ import annotations

import os
import subprocess

import pytest
from history_values import make_run, make_sweep, measured, store_one

from gpumond.errors import StoreError, StoreErrorKind
from gpumond.store.sqlite import Store

MIB = 1024 * 1024


def test_a_file_that_may_not_grow(store):
    """SQLITE_FULL without root: SQLite itself is told that the file has no room for another page."""
    run = store_one(store)
    sweep = make_sweep()
    store.start_sweep(sweep)
    open_run = make_run(sweep)
    store.start_run(open_run)
    pages = store._database.pragma("page_count")
    store._database.pragma(f"max_page_count = {pages}")
    with pytest.raises(StoreError) as caught:
        store.finish_run(measured(open_run), output=os.urandom(MIB))
    assert caught.value.kind is StoreErrorKind.FULL
    assert "Free space" in caught.value.hint
    assert store.run(run.id) == run
    assert store.run(open_run.id) == open_run

    store._database.pragma("max_page_count = 1000000")
    store.finish_run(measured(open_run), output=os.urandom(MIB))
    assert store.run(open_run.id) == measured(open_run)


@pytest.fixture
def small_disk(public_directory):
    """A file system of 2 MiB."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m,mode=755", "tmpfs", public_directory]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs a root that may mount")
    yield public_directory
    subprocess.run(["umount", public_directory], check=True, capture_output=True)


def fill_up(path):
    with path.open("wb", buffering=0) as ballast:
        for size in (65536, 4096):
            try:
                while True:
                    ballast.write(b"\0" * size)
            except OSError:
                pass


def test_a_disk_that_fills_up_while_the_daemon_runs(small_disk, clock):
    with Store.open(small_disk / "state", clock=clock) as store:
        run = store_one(store)
        sweep = make_sweep()
        store.start_sweep(sweep)
        open_run = make_run(sweep)
        store.start_run(open_run)
        fill_up(small_disk / "ballast")
        assert store.free_bytes() == 0
        with pytest.raises(StoreError) as caught:
            store.finish_run(measured(open_run), output=os.urandom(MIB))
        assert caught.value.kind is StoreErrorKind.FULL
        assert store.run(run.id) == run
        assert store.run(open_run.id) == open_run
        assert store.latest_points()
        with Store.open(small_disk / "state", clock=clock, read_only=True) as reader:
            assert reader.run(run.id) == run

        (small_disk / "ballast").unlink()
        store.finish_run(measured(open_run), output=os.urandom(MIB // 2))
        store.check_writable()
    with Store.open(small_disk / "state", clock=clock) as again:
        assert again.recovered_from is None
        assert again.run(open_run.id) == measured(open_run)


def test_a_store_cannot_begin_on_a_full_disk(small_disk, clock):
    (small_disk / "state").mkdir()
    fill_up(small_disk / "ballast")
    with pytest.raises(StoreError) as caught:
        Store.open(small_disk / "state", clock=clock)
    assert caught.value.kind is StoreErrorKind.FULL
    (small_disk / "ballast").unlink()
    with Store.open(small_disk / "state", clock=clock) as store:
        store_one(store)


def test_an_existing_store_on_a_full_disk_opens_for_reading(small_disk, clock):
    with Store.open(small_disk / "state", clock=clock) as store:
        run = store_one(store)
    fill_up(small_disk / "ballast")
    with Store.open(small_disk / "state", clock=clock, read_only=True) as reader:
        assert reader.run(run.id) == run
