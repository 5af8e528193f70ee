"""ACLs of remote topics: those of their source, made read-only; they are added, never removed."""

import logging
from collections import Counter, defaultdict
from functools import partial

from heliograph.admin.acls import create_acls, describe_topic_acls
from heliograph.config.flow import FlowConfig
from heliograph.config.naming import naming_of, replicates_of
from heliograph.errors import KafkaFault
from heliograph.kafka.cluster import Cluster, patiently
from heliograph.policy.acls import Acl, downstream_acls

log = logging.getLogger(__name__)

_ACLS_PER_REQUEST = 500


def sync_topic_acls(config: FlowConfig, source: Cluster, target: Cluster) -> list[str]:
    """Create the ACLs that remote topics lack; return a sentence for each thing not done.

    For a schedule: it blocks, and the next call retries what this one could not do. It does not ask
    the target if the source has nothing to copy. It raises only if a cluster does not answer.
    """
    missing, left = plan_acls(config, source, target)
    return left + _create(config, target, missing)


def plan_acls(config: FlowConfig, source: Cluster, target: Cluster) -> tuple[list[Acl], list[str]]:
    """Return the ACLs that remote topics lack, and a sentence for what could not be read."""
    naming = naming_of(config)
    try:
        upstream = patiently(partial(describe_topic_acls, source))
    except KafkaFault as exc:
        return [], [_unread(source, exc)]
    wanted = downstream_acls(
        upstream,
        replicates_of(config),
        lambda topic: naming.format_remote_topic(config.flow.source, topic),
    )
    if not wanted:
        return [], []
    try:
        missing = wanted.difference(patiently(partial(describe_topic_acls, target)))
    except KafkaFault as exc:
        return [], [_unread(target, exc)]
    return sorted(missing, key=str), []


def _create(config: FlowConfig, target: Cluster, missing: list[Acl]) -> list[str]:
    refused: dict[Acl, str] = {}
    for at in range(0, len(missing), _ACLS_PER_REQUEST):
        acls = missing[at : at + _ACLS_PER_REQUEST]
        refused |= patiently(partial(create_acls, target, acls))
    for topic, count in Counter(acl.topic for acl in missing if acl not in refused).items():
        log.info("flow=%s topic=%s created acls=%d", config.flow, topic, count)
    reasons: dict[str, list[Acl]] = defaultdict(list)
    for acl, reason in refused.items():
        reasons[reason].append(acl)
    return [_uncreated(target, acls, reason) for reason, acls in reasons.items()]


def _unread(cluster: Cluster, fault: KafkaFault) -> str:
    name = cluster.endpoint.cluster
    if fault.error == "SECURITY_DISABLED":
        return (
            f"{name}: has no authorizer, so that topic ACLs cannot be synced (SECURITY_DISABLED). "
            "Set sync.topic.acls.enabled=false, or authorizer.class.name on its brokers."
        )
    then = "It is tried again at the next sync."
    if fault.error == "CLUSTER_AUTHORIZATION_FAILED":
        then = (
            "Allow the mirror's user DESCRIBE on the cluster, or set sync.topic.acls.enabled=false."
        )
    return f"{name}: cannot describe the topic ACLs ({fault.error}). {then}"


def _uncreated(target: Cluster, acls: list[Acl], reason: str) -> str:
    then = "It is tried again at the next sync."
    if reason.startswith("CLUSTER_AUTHORIZATION_FAILED"):
        then = "Allow the mirror's user ALTER on the cluster, or set sync.topic.acls.enabled=false."
    what = str(acls[0]) if len(acls) == 1 else f"{len(acls)} ACLs, the first of them {acls[0]}"
    return f"{target.endpoint.cluster}: cannot create {what} ({reason}). {then}"
