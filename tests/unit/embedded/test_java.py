from pathlib import Path

import pytest

from heliograph.embedded.java import Java, find_java, select_java
from heliograph.errors import Missing

OLD = Java(Path("/opt/java-11"), "11.0.2")
NEW = Java(Path("/opt/java-21"), "21")


@pytest.mark.parametrize(
    ("version", "major"), [("1.8.0_392", 8), ("17.0.15", 17), ("25", 25), ("21-ea", 21)]
)
def test_major_of_a_version(version: str, major: int) -> None:
    assert Java(Path("/x"), version).major == major


def test_an_old_java_is_passed_over() -> None:
    assert select_java([OLD, NEW]) == NEW


def test_only_an_old_java_is_named_with_what_to_install() -> None:
    with pytest.raises(Missing, match=r"found Java 11 in /opt/java-11.*openjdk-17-jre-headless"):
        select_java([OLD])


def test_no_java_says_where_it_was_looked_for() -> None:
    with pytest.raises(Missing, match=r"JAVA_HOME, PATH and /usr/lib/jvm.*openjdk-17-jre-headless"):
        select_java([])


def test_java_home_goes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").touch(mode=0o755)
    (tmp_path / "release").write_text('IMPLEMENTOR="x"\nJAVA_VERSION="99.0.1"\n')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    assert find_java() == Java(tmp_path, "99.0.1")
