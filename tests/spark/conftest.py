from collections.abc import Generator

import pytest

from lab.mirrors import Mirror


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the end of a mirror's log beside the failure of a test that used it."""
    report = yield
    if report.failed:
        for name, value in getattr(item, "funcargs", {}).items():
            mirror = getattr(value, "mirror", value)
            if isinstance(mirror, Mirror):
                report.sections.append((f"log of {name}", mirror.tail()))
    return report
