"""`python -m deploy.grafana.make`, in the project's folder, writes the dashboards."""

import json
from pathlib import Path

from deploy.grafana.make.flow import flow
from deploy.grafana.make.groups import groups
from deploy.grafana.make.overview import overview
from deploy.grafana.make.workers import workers

FOLDER = Path(__file__).parents[1] / "dashboards"


def render() -> dict[str, str]:
    """Return the files' names and contents."""
    made = (overview(), flow(), groups(), workers())
    return {
        f"{content['uid']}.json": json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        for content in made
    }


if __name__ == "__main__":
    for name, text in render().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
