"""How long the parts of a stop may take: together less than the 15 seconds after which a stop counts as failed."""

from datetime import timedelta

UPKEEP = timedelta(seconds=2)
DRAIN = timedelta(seconds=7)
LAST_SAVE = timedelta(seconds=2)
_REST = timedelta(seconds=2)
STOP = UPKEEP + DRAIN + LAST_SAVE + _REST
