from gpusight.analysis.parts import build_parts
from gpusight.model.series import Place, Windows

from .building import CRITERIA, GIB, busy_gpu, gpu, idle_gpu, key_of, means, part_of, reading_of, signal


def test_a_device_series_and_a_containers_series_are_one_part() -> None:
    key = key_of()
    part = part_of(gpu(key, util=0.5, own=0.5, used=40 * GIB, own_used=10 * GIB, own_limit=20 * GIB))
    assert part.key == key
    assert (part.memory_used, part.memory_total) == (10 * GIB, 20 * GIB)


def test_slots_do_not_part_what_is_one() -> None:
    with_slot, bare = key_of(slot="1"), key_of()
    windows = [
        signal("utilization", {with_slot: 0.0}),
        signal("utilization", {bare: 0.0}, family="other"),
        signal("utilization", {with_slot: 0.0}, scope="holder"),
    ]
    part = part_of(windows)
    assert part.key == with_slot
    assert part.sharers == 1


def test_what_ended_is_gone_and_what_lives_by_memory_alone_is_there() -> None:
    dead, blank = key_of("dead"), key_of("blank", "GPU-2")
    reading = reading_of([signal("utilization", {dead: 0.9}, ended=[dead]), means("memory_used", {blank: GIB})])
    (part,) = build_parts(reading, CRITERIA)
    assert part.key == blank
    assert part.activity is None
    assert part.doubt == "no series says whether it computes"


def test_means_without_a_pods_name_fill_up_what_the_named_series_lack() -> None:
    part = part_of(gpu(key_of(), util=0.5, power=300.0), gpu(key_of(""), power=999.0, sm_clock=1.5e9, used=GIB))
    assert (part.power, part.sm_clock, part.memory_used) == (300.0, 1.5e9, GIB)


def test_the_most_trusted_family_wins() -> None:
    key = key_of()
    windows = [means("power", {key: 300.0}, family="first"), means("power", {key: 400.0}, family="second")]
    assert part_of(windows, gpu(key, util=0.5)).power == 300.0


def test_halves_of_two_families_never_make_one_signal() -> None:
    key = key_of()
    whole = signal("utilization", {key: 0.0}, family="first")
    lacking = Windows("utilization", "device", "first", {name: whole.columns[name] for name in ("last_seen", "mean")})
    counts = Windows("utilization", "device", "second", {name: whole.columns[name] for name in ("count", "max")})
    part = part_of([lacking, counts])
    assert part.activity is None


def test_a_part_knows_how_many_pods_share_its_device() -> None:
    keys = [
        key_of("a"),
        key_of("b"),
        key_of("b", container="second"),
        key_of("c", "GPU-2"),
        key_of("a", cluster="east"),
    ]
    parts = build_parts(reading_of(*(gpu(key, own=0.1) for key in keys)), CRITERIA)
    assert {part.key: part.sharers for part in parts} == dict(zip(keys, (2, 2, 2, 1, 1), strict=True))


def test_what_is_of_the_whole_board_is_no_sharers_and_no_instances() -> None:
    shared = build_parts(
        reading_of(*(busy_gpu(key_of(pod), own=0.5, memory_copy=0.2, sm_active=0.3) for pod in "ab")), CRITERIA
    )
    instance = part_of(busy_gpu(key_of(mig="1"), engine=0.5, memory_copy=0.2, sm_active=0.3))
    for part in shared:
        assert (part.power, part.memory_copy, part.sm_active, part.memory_used) == (None, None, None, None)
        assert part.device_memory == 80 * GIB
    assert (instance.power, instance.memory_copy) == (None, None)
    assert (instance.sm_active, instance.memory_used) == (0.3, 60 * GIB)


def test_what_nobody_holds_is_there_until_somebody_does() -> None:
    free = reading_of(idle_gpu(key_of("")), idle_gpu(key_of("", "GPU-2")), idle_gpu(key_of("a", "GPU-2")))
    assert [part.key for part in build_parts(free, CRITERIA)] == [key_of(""), key_of("a", "GPU-2")]


def test_free_mig_instances_are_there_beside_held_ones_and_the_board_is_not() -> None:
    board, free, held = key_of(""), key_of("", mig="1"), key_of("a", mig="2")
    reading = reading_of(idle_gpu(board), gpu(free, engine=0.0), gpu(held, engine=0.0))
    assert [part.key for part in build_parts(reading, CRITERIA)] == [free, held]


def test_a_gpu_in_mig_mode_has_no_utilization_whatever_the_driver_says() -> None:
    board, instance = key_of("a"), key_of("a", mig="1")
    parts = build_parts(reading_of(idle_gpu(board), gpu(instance, engine=0.9)), CRITERIA)
    assert {part.key.mig: part.doubt != "" for part in parts} == {"": True, "1": False}


def test_a_place_is_by_cluster_and_gpu() -> None:
    east, west = key_of(cluster="east"), key_of(cluster="west")
    places = {("east", "GPU-1"): Place("n1", "T4"), ("west", "GPU-1"): Place("n2", "L4")}
    parts = build_parts(reading_of(gpu(east, util=0.1), gpu(west, util=0.1), places=places), CRITERIA)
    assert [part.place.model for part in parts] == ["T4", "L4"]


def test_pcie_is_what_goes_both_ways() -> None:
    assert part_of(gpu(key_of(), util=0.5, pcie_transmit=1e9, pcie_receive=2e9)).pcie == 3e9
    assert part_of(gpu(key_of(), util=0.5, pcie_receive=2e9)).pcie == 2e9
    assert part_of(gpu(key_of(), util=0.5)).pcie is None


def test_a_containers_series_that_do_not_name_the_mig_instance_are_no_second_part() -> None:
    instance, unnamed = key_of(mig="1"), key_of()
    windows = [
        signal("engine_active", {instance: 0.5}),
        means("memory_used", {unnamed: 4 * GIB}, scope="holder"),
    ]
    part = part_of(windows)
    assert part.key == instance
    assert part.memory_used == 4 * GIB


def test_of_two_instances_nobody_knows_whose_such_series_are() -> None:
    first, second, unnamed = key_of(mig="1"), key_of(mig="2"), key_of()
    windows = [
        signal("engine_active", {first: 0.5, second: 0.5}),
        means("memory_used", {unnamed: 4 * GIB}, scope="holder"),
    ]
    parts = build_parts(reading_of(windows), CRITERIA)
    assert {part.key: part.memory_used for part in parts} == {first: None, second: None}
