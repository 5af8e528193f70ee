import os

from heliograph.observe.usage import Process, parse_stat, read_usage, sum_up

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def test_a_name_with_brackets_and_spaces_is_read_past() -> None:
    text = "42 (a) b (c) S 7 42 42 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 1 0 100 5000 77 18446 1 1"
    assert parse_stat(text) == Process(42, 7, "a) b (c", 100, 77)


def test_what_is_below_a_process_counts_by_part_and_strangers_do_not() -> None:
    processes = [
        Process(1, 0, "init", 5, 5),
        Process(10, 1, "python", TICKS, 1),
        Process(11, 10, "java", 2 * TICKS, 10),
        Process(12, 11, "python3.11", TICKS, 3),
        Process(13, 12, "python3.11", TICKS, 4),
        Process(20, 1, "java", 100 * TICKS, 100),
    ]
    usage = sum_up(10, processes)

    assert {part: its.cpu_seconds for part, its in usage.items()} == {
        "driver": 1.0,
        "jvm": 2.0,
        "python": 2.0,
    }
    assert usage["python"].processes == 2
    assert usage["python"].resident_bytes == 7 * PAGE


def test_this_process_has_used_something() -> None:
    driver = read_usage()["driver"]
    assert driver.processes == 1
    assert driver.cpu_seconds > 0
    assert driver.resident_bytes > 1 << 20
