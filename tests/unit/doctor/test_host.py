"""What doctor says of schedulers that give out the GPUs, from names of processes."""

import pytest

from gpumond.config.load import parse
from gpumond.doctor.checks import Level
from gpumond.doctor.host import check_scheduler

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
