"""Mistakes that a user can make in a configuration. A message is `file:line: key=value: what is allowed`."""

from heliograph.errors import ConfigError


class InvalidSetting(ConfigError):
    """A value that its key does not take; `shown` is already free of secrets."""

    def __init__(self, where: str, key: str, shown: str, allowed: str) -> None:
        super().__init__(where, key, shown, allowed)
        self.where = where
        self.key = key
        self.shown = shown
        self.allowed = allowed

    def __str__(self) -> str:
        at = f"{self.where}: " if self.where else ""
        return f"{at}{self.key}={self.shown}: {self.allowed}."


class MissingSetting(ConfigError):
    """A required key that is missing."""

    def __init__(self, where: str, key: str, needed: str) -> None:
        super().__init__(where, key, needed)
        self.where = where
        self.key = key
        self.needed = needed

    def __str__(self) -> str:
        at = f"{self.where}: " if self.where else ""
        return f"{at}{self.key} is missing: {self.needed}."


class UnreadableFile(ConfigError):
    """A file that does not exist or does not hold what its name says."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(where, reason)
        self.where = where
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}."
