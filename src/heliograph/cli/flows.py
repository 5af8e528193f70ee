"""Which flows of a file a command means."""

from heliograph.config.flow import FlowConfig
from heliograph.config.mirror import MirrorConfig
from heliograph.errors import ConfigError


def select_flows(config: MirrorConfig, names: list[str]) -> list[FlowConfig]:
    """Return the enabled flows, or those named, enabled or not; a name that is no flow is a mistake."""
    flows = {str(f.flow): f for f in config.flows}
    if not names:
        return list(flows.values())
    known = flows | {str(f.flow): f for f in config.other_flows}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ConfigError(
            f"--flow {unknown[0]}: there is no such flow; there are {', '.join(sorted(known))}."
        )
    return [f for name, f in known.items() if name in names]


def reverse_of(config: MirrorConfig, flow: FlowConfig) -> FlowConfig:
    """Return the flow the other way round, enabled or not."""
    wanted = (flow.flow.target, flow.flow.source)
    found = [*config.flows, *config.other_flows]
    return next(f for f in found if (f.flow.source, f.flow.target) == wanted)
