"""Everything that can go wrong, by what the reader can do about it.

MirrorError
├── ConfigError          edit the file or the command line            exit 2
├── ClusterUnreachable   bring the cluster or the network back        exit 3
├── DeadlinePassed       give it more time, or find what is slow      exit 3
├── KafkaFault           the broker refused; `retriable` says whether waiting helps
│   └── TokenRefused     the identity provider issued no token
├── CorruptRecord        bytes that are not what they claim to be: stop, look
├── FlowFenced           another process mirrors this flow now
├── FlowHeld             the flow was failed over: fail it back, or release it
├── NotMirrored          name another cluster: this one is not mirrored here
├── NotTranslated        say where a group starts, or have the mirror handle it
├── NotThere             name another: there is no such cluster, topic, partition or group
└── Missing              something this machine lacks: Java, a jar, a port

A message is one sentence: where, what, what next. Across Spark only its text survives, so it
must read well alone. Every constructor passes all its arguments, in order, to `super().__init__`: errors pickle.
"""


class MirrorError(Exception):
    """Root of all errors that heliograph raises on purpose."""

    exit_code = 1


class ConfigError(MirrorError):
    """A setting, file or command line that cannot be used as it is."""

    exit_code = 2


class ClusterUnreachable(MirrorError):
    """No broker of a cluster answers."""

    exit_code = 3

    def __init__(self, cluster: str, bootstrap: str, reason: str) -> None:
        super().__init__(cluster, bootstrap, reason)
        self.cluster = cluster
        self.bootstrap = bootstrap
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"{self.words(self.cluster)} at {self.bootstrap} ({self.reason}). "
            f"Check that the cluster runs and that {self.cluster}.bootstrap.servers is right."
        )

    @staticmethod
    def words(cluster: str) -> str:
        """Return how the sentence about a cluster begins."""
        return f"{cluster}: no broker answers"


class DeadlinePassed(MirrorError):
    """The complete answer did not arrive in time, and half an answer counts as none."""

    exit_code = 3

    def __init__(self, doing: str, seconds: float) -> None:
        super().__init__(doing, seconds)
        self.doing = doing
        self.seconds = seconds

    def __str__(self) -> str:
        return (
            f"{self.doing}: not all of it came within {self.seconds:g} s. "
            "Give it more time, or look why the cluster is slow."
        )


_AGAIN = "It is tried again."


class KafkaFault(MirrorError):
    """A broker refused a request."""

    def __init__(self, doing: str, error: str, retriable: bool) -> None:
        super().__init__(doing, error, retriable)
        self.doing = doing
        self.error = error
        self.retriable = retriable

    def __str__(self) -> str:
        then = "See the broker's log for the reason."
        if self.retriable:
            then = _AGAIN
        elif "AUTHORIZATION_FAILED" in self.error:
            then = "Allow it to the user that this client logs in as; docs/security.md lists what."
        elif self.error == "SASL_AUTHENTICATION_FAILED":
            then = "Check the login in sasl.jaas.config."
        answer = self.error.removesuffix(_AGAIN).rstrip(" .")  # it may quote another fault
        return f"{self.doing}: the broker answered {answer}. {then}"


class TokenRefused(KafkaFault):
    """The identity provider issued no token; the message quotes neither request nor response."""

    def __init__(self, key: str, where: str, answer: str, retriable: bool) -> None:
        super().__init__(f"get a token from {where}", answer, retriable)
        self.args = (key, where, answer, retriable)
        self.key = key
        self.where = where

    def __str__(self) -> str:
        then = "It is tried again." if self.retriable else "Check the client's id and secret."
        return f"{self.key}: {self.where} answered {self.error}, no token. {then}"


class CorruptRecord(MirrorError):
    """Bytes from a broker that are not what they claim to be."""


class FlowFenced(MirrorError):
    """Another process took this flow over; this one must not write any more."""

    def __init__(self, flow: str, partition: str) -> None:
        super().__init__(flow, partition)
        self.flow = flow
        self.partition = partition

    def __str__(self) -> str:
        return (
            f"{self.flow}: fenced at {self.partition}, because another process mirrors this flow now. "
            "Stop one of the two."
        )


class FlowHeld(MirrorError):
    """A flow that was failed over must not copy anything until somebody decides."""

    def __init__(self, flow: str, since: str) -> None:
        super().__init__(flow, since)
        self.flow = flow
        self.since = since

    def __str__(self) -> str:
        return (
            f"{self.flow}: held since {self.since}, because it was failed over then. "
            f"Run `heliograph failback FILE --flow '{self.flow}'`, which lists what never left "
            "the source and lets the flow go."
        )


class NotMirrored(MirrorError):
    """No topic refers to that remote cluster; `known` are the topics that refer to others."""

    def __init__(self, remote_cluster: str, topic: str, known: tuple[str, ...]) -> None:
        super().__init__(remote_cluster, topic, known)
        self.remote_cluster = remote_cluster
        self.topic = topic
        self.known = known

    def __str__(self) -> str:
        others = f"only {', '.join(self.known)}" if self.known else "and none like it"
        return (
            f"{self.remote_cluster}: there is no topic {self.topic} here, {others}. "
            "Check the cluster's alias and the naming policy."
        )


class NotTranslated(MirrorError):
    """A group cannot continue on a cluster, because its position there is unknown."""

    _SHOWN = 3

    def __init__(self, group: str, cluster: str, reasons: tuple[str, ...]) -> None:
        super().__init__(group, cluster, reasons)
        self.group = group
        self.cluster = cluster
        self.reasons = reasons

    def __str__(self) -> str:
        more = len(self.reasons) - self._SHOWN
        told = "; ".join(self.reasons[: self._SHOWN]) + (f"; and {more} more" if more > 0 else "")
        return (
            f"{self.group}: cannot tell where to go on on {self.cluster} ({told}). "
            "Check that the mirror copies these topics and looks after this group, or say where to "
            'begin: auto_offset_reset for what was never read, and untranslated="reset" for the rest.'
        )


class NotThere(MirrorError):
    """The requested object does not exist."""


class Missing(MirrorError):
    """Something this machine lacks."""

    exit_code = 2
