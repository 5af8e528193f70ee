"""ACLs of topics, by their literal names: reading them, and creating more."""

from collections.abc import Sequence
from typing import Final

from kafka.protocol.admin import CreateAclsRequest, DescribeAclsRequest

from heliograph.kafka.cluster import Cluster
from heliograph.net.faults import error_name, fault_for
from heliograph.policy.acls import Acl, Operation, Permission

_TOPIC_RESOURCE: Final = 2
_LITERAL: Final = 3
_ANY: Final = 1


def describe_topic_acls(cluster: Cluster) -> list[Acl]:
    """Return every ACL that names a topic literally; `*` is such a name too."""
    request = DescribeAclsRequest(
        resource_type_filter=_TOPIC_RESOURCE,
        resource_name_filter=None,
        pattern_type_filter=_LITERAL,
        principal_filter=None,
        host_filter=None,
        operation=_ANY,
        permission_type=_ANY,
    )
    answer = cluster.call(request, newest=3)
    if answer.error_code:
        raise fault_for(f"describe the ACLs of {cluster.endpoint.cluster}", answer.error_code)
    return [
        Acl(
            resource.resource_name,
            acl.principal,
            acl.host,
            Operation(acl.operation),
            Permission(acl.permission_type),
        )
        for resource in answer.resources
        for acl in resource.acls
    ]


def create_acls(cluster: Cluster, acls: Sequence[Acl]) -> dict[Acl, str]:
    """Create these ACLs and return the broker's reason for each that it refused."""
    if not acls:
        return {}
    request = CreateAclsRequest(
        creations=[
            CreateAclsRequest.AclCreation(
                resource_type=_TOPIC_RESOURCE,
                resource_name=acl.topic,
                resource_pattern_type=_LITERAL,
                principal=acl.principal,
                host=acl.host,
                operation=int(acl.operation),
                permission_type=int(acl.permission),
            )
            for acl in acls
        ]
    )
    results = cluster.call(request, newest=3).results
    return {
        acl: error_name(result.error_code)
        + (f": {result.error_message}" if result.error_message else "")
        for acl, result in zip(acls, results, strict=True)
        if result.error_code
    }
