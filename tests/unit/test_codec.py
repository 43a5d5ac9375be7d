from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from pydantic import TypeAdapter

from gpumond.codec import decode, encode
from gpumond.model.benchmark import Collective, Placement
from gpumond.model.run import Engine
from gpumond.model.status import LatestPoint
from gpumond.model.topology import Snapshot


def test_what_was_written_reads_back_equal(eight_gpus):
    assert decode(Snapshot, encode(eight_gpus)) == eight_gpus


def test_the_hand_written_half_agrees_with_pydantic(eight_gpus):
    """Reading and writing are two programs: this holds them to one format."""
    assert json.loads(encode(eight_gpus)) == json.loads(TypeAdapter(Snapshot).dump_json(eight_gpus))


@pytest.mark.parametrize(
    ("document", "place"),
    [
        ("", "document"),
        ("[]", "document"),
        ('{"schema": 1}', "taken_at"),
        ('{"taken_at": "yesterday"}', "taken_at"),
    ],
)
def test_a_document_that_does_not_fit_names_the_place(document, place):
    with pytest.raises(ValueError, match=f"^{place}: "):
        decode(Snapshot, document)


def test_json_has_no_nan():
    point = LatestPoint(
        "nightly", Engine.NCCL_TESTS, "all", Collective.ALL_REDUCE, "float", 1024, Placement.IN_PLACE,
        datetime(2026, 11, 29, tzinfo=UTC), 1e-6, 1.0, math.nan, 0,
    )  # fmt: skip
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode(point)
    assert b"338120000000.0" in encode(replace(point, busbw_bytes_per_second=338.12e9))


def test_what_is_no_model_value_is_refused():
    with pytest.raises(TypeError, match="set is no model value"):
        encode({"gpus": {1, 2}})


def test_a_process_that_only_writes_does_not_load_pydantic():
    source = "import sys, gpumond.codec; gpumond.codec.encode({}); print('pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-c", source], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
