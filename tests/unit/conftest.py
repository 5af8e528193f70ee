from pathlib import Path

import pytest

from heliograph.config.flow import FlowConfig
from heliograph.config.mirror import load_mirror
from lab.mirrors import flow_properties


@pytest.fixture
def config(tmp_path: Path) -> FlowConfig:
    """A flow A->B between two clusters that are not there."""
    file = tmp_path / "mm2.properties"
    properties = flow_properties(("A", "localhost:1"), ("B", "localhost:2"), ".*")
    file.write_text("".join(f"{key} = {value}\n" for key, value in properties.items()))
    return load_mirror(file, {}).flows[0]
