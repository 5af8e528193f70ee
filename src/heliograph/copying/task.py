"""One slice, from its claim to its end."""

from contextlib import closing

from heliograph.copying.copier import Copier
from heliograph.copying.lease import Lease
from heliograph.wire.lease_messages import Claim


def copy(claim: Claim, task: int) -> None:
    """Copy what the driver hands out, until it sends `End`. Blocks; raises if the lease is lost."""
    with closing(Lease(claim, task)) as lease:
        welcome, orders = lease.await_welcome()
        Copier(lease, welcome).run(orders)
