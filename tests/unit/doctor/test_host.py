"""What doctor says of schedulers that give out the GPUs, from names of processes."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from gpumond.config.load import parse
from gpumond.doctor.checks import NOT_EVALUATED, Level
from gpumond.doctor.gpus import check_acs
from gpumond.doctor.host import check_scheduler
from gpumond.model.reading import NOT_SUPPORTED, Unreadable, UnreadableReason, Value
from gpumond.simulate.scenario import load_scenario
from gpumond.simulate.snapshot import render_snapshot

SWEEP = '[[sweep]]\nname = "nightly"\n'
OK, WARNING = Level.OK, Level.WARNING


@pytest.mark.parametrize(
    ("text", "names", "said"),
    [
        (SWEEP, {"bash", "systemd"}, []),
        (SWEEP, {"slurmd"}, [("Slurm", WARNING)]),
        (SWEEP + "[guards.slurm]\n", {"slurmd"}, [("Slurm", OK)]),
        (SWEEP, {"kubelet", "slurmd"}, [("Slurm", WARNING), ("Kubernetes", WARNING)]),
        (SWEEP + '[guards]\ncommand = ["/usr/local/bin/no-pods"]\n', {"kubelet"}, []),
        ("", {"slurmd", "kubelet"}, []),
        (SWEEP + '[simulate]\nscenario = "hgx-h200-8"\n', {"slurmd"}, []),
    ],
)
def test_schedulers(text, names, said):
    checks = list(check_scheduler(parse(text, name="test"), names))
    assert [(check.name, check.level) for check in checks] == said
    assert all(check.hint for check in checks if check.level is WARNING)


def test_acs_is_read_by_root_only_and_doctor_says_what_to_do():
    host = render_snapshot(load_scenario("l40s-8-pcie"), taken_at=datetime(2026, 11, 29, tzinfo=UTC)).host

    def said(reading):
        (check,) = check_acs(replace(host, acs_redirects=reading))
        return check.level, check.detail, bool(check.hint)

    hidden = Unreadable(UnreadableReason.NO_PERMISSION, "shown to root only")
    assert said(hidden) == (Level.NOTE, f"{NOT_EVALUATED}: shown to root only", True)
    assert said(Value(())) == (OK, "no bridge above the GPUs redirects P2P", False)
    level, detail, has_hint = said(Value(("0000:e0:01.0",)))
    assert (level, has_hint) == (WARNING, True)
    assert "0000:e0:01.0" in detail
    assert list(check_acs(replace(host, acs_redirects=NOT_SUPPORTED))) == []
