from heliograph.control.flow_status import Spread
from heliograph.control.job_status import spread_of
from heliograph.dataplane.latency import Window, taken


def test_a_window_that_ran_dry_still_tells_the_last_value() -> None:
    window = Window()
    assert spread_of(window, 0) is None
    window.add(0, taken(4, 3))
    window.add(1, taken(8))
    assert spread_of(window, 2) == Spread(8, 4, 8, 5)
    assert spread_of(window, 100) == Spread(8)
