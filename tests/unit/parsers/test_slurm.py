"""Texts of Slurm 22.05, as printed; whatever does not say what it should raises, and a guard makes a no of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumond.parsers.slurm import SlurmJob, parse_jobs, parse_node, parse_submitted

NODE = (
    "NodeName=vm Arch=x86_64 CoresPerSocket=1  CPUAlloc=0 CPUEfctv=2 CPUTot=2 CPULoad=11.40 "
    "AvailableFeatures=(null) ActiveFeatures=(null) Gres=gpu:2 NodeAddr=127.0.0.1 NodeHostName=vm Version=22.05.8 "
    "OS=Linux 6.18.44-fc-v782 #1 SMP PREEMPT_DYNAMIC @0  RealMemory=1000 AllocMem=0 FreeMem=20548 Sockets=2 Boards=1 "
    "State={state} ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A Partitions=p  "
    "BootTime=2026-11-29T18:08:07 CfgTRES=cpu=2,mem=1000M,billing=2 AllocTRES= CapWatts=n/a ExtSensorsTemp=n/s {tail}\n"
)


def node(state, tail=""):
    return parse_node(NODE.format(state=state, tail=tail))


def test_no_line_is_no_job():
    assert parse_jobs("") == ()
    assert parse_jobs("\n") == ()


def test_a_job_with_a_hostile_name():
    jobs = parse_jobs("12|RUNNING|root|a|b = c\n13|COMPLETING|eve|\n")
    assert jobs == (SlurmJob("12", "RUNNING", "root", "a|b = c"), SlurmJob("13", "COMPLETING", "eve", ""))


@pytest.mark.parametrize(
    "text",
    [
        "slurm_load_jobs error: Unable to contact slurm controller",
        "12|RUNNING|root",
        "|||",
        "12||root|x",
        "x|R|u|n",
    ],
)
def test_what_is_no_job_is_no_answer(text):
    with pytest.raises(ValueError, match="squeue printed"):
        parse_jobs(text)


@pytest.mark.parametrize(
    ("state", "states"),
    [
        ("IDLE", ("IDLE",)),
        ("MIXED", ("MIXED",)),
        ("IDLE+DRAIN", ("IDLE", "DRAIN")),
        ("IDLE+PLANNED", ("IDLE", "PLANNED")),
        ("ALLOCATED+COMPLETING", ("ALLOCATED", "COMPLETING")),
        ("DOWN*", ("DOWN", "NOT_RESPONDING")),
        ("IDLE~", ("IDLE", "POWERED_DOWN")),
        ("DOWN*+DRAIN", ("DOWN", "DRAIN", "NOT_RESPONDING")),
    ],
)
def test_the_states_of_a_node(state, states):
    assert node(state).states == states
    assert node(state).name == "vm"


def test_a_reason_may_hold_anything():
    reason = "a fan = noise [root@2026-11-29T20:00:00]"
    assert node("IDLE+DRAIN", f"Reason={reason}").reason == reason


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Node vm not found",
        "NodeName=vm Arch=x86_64",
        "State=IDLE",
        NODE.format(state="*", tail=""),
        "NodeName=a State=IDLE\nNodeName=b State=IDLE\n",
    ],
)
def test_what_is_no_node_is_no_answer(text):
    with pytest.raises(ValueError, match="scontrol printed"):
        parse_node(text)


@pytest.mark.parametrize(
    ("text", "job"), [("12\n", "12"), ("12;east\n", "12"), ("sbatch: a note\n12\n", "12")]
)
def test_the_id_of_a_submitted_job(text, job):
    assert parse_submitted(text) == job


@pytest.mark.parametrize("text", ["", "sbatch: error: Batch job submission failed", "twelve"])
def test_without_an_id_there_is_no_job(text):
    with pytest.raises(ValueError, match="sbatch printed no job id"):
        parse_submitted(text)


@given(st.text(max_size=300))
def test_no_text_breaks_a_reader(text):
    for parse in (parse_jobs, parse_node, parse_submitted):
        try:
            parse(text)
        except ValueError:
            continue
