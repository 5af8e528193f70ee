"""A cluster on which an ACL that denies is obeyed: nobody there is a super user."""

from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from lab.clusters import LiveCluster, eventually, start_live_cluster

_EVERYBODY = "User:*"


class GuardedCluster(LiveCluster):
    """Everything is allowed until it is denied."""

    def deny(self, kind: ResourceType, name: str) -> None:
        """Forbid everybody everything on one resource."""
        self._bind(kind, name, AclOperation.ALL, AclPermissionType.DENY)

    def allow_only(self, kind: ResourceType, name: str, operation: AclOperation) -> None:
        """Forbid everybody all but one operation: where there is an ACL, what it leaves out is denied."""
        self._bind(kind, name, operation, AclPermissionType.ALLOW)

    def _bind(
        self, kind: ResourceType, name: str, operation: AclOperation, permission: AclPermissionType
    ) -> None:
        terms = (kind, name, ResourcePatternType.LITERAL, _EVERYBODY, "*", operation, permission)
        binding = AclBinding(*terms)
        self.admin.create_acls([binding])[binding].result(timeout=30)
        eventually(
            lambda: self.admin.describe_acls(AclBindingFilter(*terms)).result(timeout=30),
        )


def start_guarded_cluster(folder: Path) -> GuardedCluster:
    config = {"super.users": "User:nobody"}
    return GuardedCluster(start_live_cluster("guarded", folder, config=config).cluster)
