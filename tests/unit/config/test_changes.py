"""What a reload says it would change."""

from __future__ import annotations

import pytest

from gpumond.config.load import default_config, diff, hash_of, parse


def config(text):
    return parse(text, name="test")


@pytest.mark.parametrize(
    ("old", "new", "changed", "needs_restart"),
    [
        ("", "", (), ()),
        ("", '[log]\nlevel = "info"', (), ()),
        ("", '[log]\nlevel = "debug"', ("log.level",), ()),
        ("", '[web]\nlisten_address = ":1"', ("web.listen_address",), ("web.listen_address",)),
        (
            "",
            '[store]\ndirectory = "/x"\nmin_free = 0',
            ("store.directory", "store.min_free"),
            ("store.directory",),
        ),
        ("", '[simulate]\nscenario = "a"', ("simulate",), ("simulate",)),
        (
            '[simulate]\nscenario = "a"',
            '[simulate]\nscenario = "b"',
            ("simulate.scenario",),
            ("simulate.scenario",),
        ),
        ("", '[[sweep]]\nname = "a"', ("sweep.a",), ()),
        ('[[sweep]]\nname = "a"', "", ("sweep.a",), ()),
        (
            '[[sweep]]\nname = "a"',
            '[[sweep]]\nname = "b"\n[[sweep]]\nname = "a"\niterations = 50',
            ("sweep.a.iterations", "sweep.b"),
            (),
        ),
        (
            '[[sweep]]\nname = "a"\n[[sweep]]\nname = "b"',
            '[[sweep]]\nname = "b"\n[[sweep]]\nname = "a"',
            (),
            (),
        ),
        ("", "gpu_sets.n = { numa_node = 0 }", ("gpu_sets.n",), ()),
        ("gpu_sets.n = { numa_node = 0 }", "gpu_sets.n = { numa_node = 1 }", ("gpu_sets.n.numa_node",), ()),
        ("", '[engines.nccl_tests]\nlauncher = ["x"]', ("engines.nccl_tests.launcher",), ()),
        ("", 'benchmark.environment.NCCL_A = "1"', ("benchmark.environment.NCCL_A",), ()),
        (
            'benchmark.environment.NCCL_A = "1"',
            'benchmark = { environment = { NCCL_A = "2" }, lock_file = "/x" }',
            ("benchmark.environment.NCCL_A", "benchmark.lock_file"),
            ("benchmark.lock_file",),
        ),
    ],
)
def test_diff(old, new, changed, needs_restart):
    there, back = diff(config(old), config(new)), diff(config(new), config(old))
    assert (there.changed, there.needs_restart) == (changed, needs_restart)
    assert back == there
    assert there.is_empty is not bool(changed)


def test_the_hash_is_of_the_meaning():
    plain = config('[snapshot]\ninterval = "90s"\n[[sweep]]\nname = "a"\n[[sweep]]\nname = "b"')
    other = config('# x\n[[sweep]]\nname = "b"\n[[sweep]]\nname = "a"\n[snapshot]\ninterval = "1m30s"')
    assert hash_of(plain) == hash_of(other)
    assert len(hash_of(plain)) == 64
    assert hash_of(plain) != hash_of(default_config())
    assert hash_of(config('[web]\nlisten_address = ":1"')) != hash_of(config('[web]\nlisten_address = ":2"'))
