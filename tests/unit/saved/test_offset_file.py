from pathlib import Path

from heliograph.saved.offset_file import OffsetFile


def test_a_file_that_is_deleted_while_it_is_used_is_noticed_once(tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    file = OffsetFile(path)
    assert not file.ensure(1, 1)
    file.write({b"a": b"1"})
    assert not file.ensure(1, 1)
    path.unlink()
    assert file.ensure(1, 1)
    assert not file.ensure(1, 1)
    file.write({b"b": b"2"})
    assert file.read() == {b"b": b"2"}
