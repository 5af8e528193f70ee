"""Which flows of a file a command means."""

from heliograph.config.flow import FlowConfig
from heliograph.config.mirror import MirrorConfig
from heliograph.errors import ConfigError


def select_flows(config: MirrorConfig, names: list[str]) -> list[FlowConfig]:
    """Return the enabled flows, or those named; a name that is no flow is a mistake."""
    flows = {str(f.flow): f for f in config.flows if f.enabled}
    unknown = [name for name in names if name not in flows]
    if unknown:
        raise ConfigError(
            f"--flow {unknown[0]}: no such flow is enabled; there are {', '.join(sorted(flows))}."
        )
    return [f for name, f in flows.items() if not names or name in names]
