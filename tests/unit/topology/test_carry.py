"""What was not asked keeps its last value; what was asked and failed does not."""

from dataclasses import replace

from gpumond.model.reading import Unreadable, UnreadableReason, Value
from gpumond.model.topology import SilentGpu
from gpumond.topology.carry import carry_over

NOT_ASKED = Unreadable(UnreadableReason.NOT_ASKED)


def with_errors(snapshot, errors):
    gpus = tuple(
        replace(gpu, nvlinks=Value(tuple(replace(link, errors=errors) for link in gpu.nvlinks.value)))
        for gpu in snapshot.gpus
    )
    return replace(snapshot, gpus=gpus)


def all_errors(snapshot):
    return {
        link.errors
        for gpu in snapshot.gpus
        for link in gpu.nvlinks.value
        if isinstance(link.errors, Unreadable)
    }


def test_the_first_snapshot_is_taken_as_it_is(two_gpus):
    assert carry_over(None, two_gpus) is two_gpus


def test_counters_that_were_not_asked_keep_their_last_value(two_gpus):
    known = with_errors(two_gpus, Value({"replay": 7}))
    assert carry_over(known, with_errors(two_gpus, NOT_ASKED)) == known


def test_counters_that_could_not_be_read_stay_unreadable(two_gpus):
    known = with_errors(two_gpus, Value({"replay": 7}))
    lost = Unreadable(UnreadableReason.GPU_LOST)
    assert all_errors(carry_over(known, with_errors(two_gpus, lost))) == {lost}


def test_a_new_value_replaces_the_old_one(two_gpus):
    new = with_errors(two_gpus, Value({"replay": 8}))
    assert carry_over(with_errors(two_gpus, Value({"replay": 7})), new) == new


def without_second(snapshot, reason):
    first, second = snapshot.gpus
    silent = SilentGpu(index=1, pci_bus_id=second.pci_bus_id, cause=Unreadable(reason))
    return replace(snapshot, gpus=(first,), pairs=(), silent_gpus=(silent,))


def test_a_sleeping_gpu_keeps_its_facts_and_its_links(two_gpus):
    carried = carry_over(two_gpus, without_second(two_gpus, UnreadableReason.ASLEEP))
    assert carried.gpus == two_gpus.gpus
    assert {pair.gpu for pair in carried.pairs} == {gpu.uuid for gpu in two_gpus.gpus}


def test_a_lost_gpu_does_not(two_gpus):
    gone = without_second(two_gpus, UnreadableReason.GPU_LOST)
    assert carry_over(two_gpus, gone) == gone


def test_a_replaced_gpu_inherits_nothing(two_gpus):
    known = with_errors(two_gpus, Value({"replay": 7}))
    other = with_errors(two_gpus, NOT_ASKED)
    first, second = other.gpus
    other = replace(other, gpus=(first, replace(second, uuid="GPU-another")))
    carried = carry_over(known, other)
    assert {link.errors for link in carried.gpus[1].nvlinks.value} == {NOT_ASKED}
