"""Loads kafka-python, the oracle of these tests, past the deprecated call in its import."""

import warnings

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    import kafka  # noqa: F401
