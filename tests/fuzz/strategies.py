"""Valid bytes, spoilt: a bit, a length, a part of them."""

from collections.abc import Sequence

from hypothesis import strategies as st

_EXTREME = [
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\x00\x00\x00\x00",
    b"\xff\xff\xff\xff\x0f",
    b"\x7f\xff",
    b"\xff\xff",
    b"\xff" * 8,
    b"\x7f" + b"\xff" * 7,
    b"\x80" * 10,
    b"\x00",
    b"\xff",
    b"[" * 2000,
    b"9" * 5000,
    b"1e999",
    b"Infinity",
    b'"\\ud800"',
    b"null",
    b"-1",
]


@st.composite
def spoilt(draw: st.DrawFn, seeds: Sequence[bytes]) -> bytes:
    """Return a seed after some changes that a hostile sender would think of."""
    data = bytearray(draw(st.sampled_from(seeds)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        match draw(st.integers(0, 5)):
            case 0 if at < len(data):
                data[at] ^= 1 << draw(st.integers(0, 7))
            case 1:
                del data[at:]
            case 2:
                extreme = draw(st.sampled_from(_EXTREME))
                data[at : at + len(extreme)] = extreme
            case 3:
                data[at:at] = draw(st.sampled_from(_EXTREME) | st.binary(min_size=1, max_size=8))
            case 4:
                del data[at : at + draw(st.integers(1, 8))]
            case _:
                data += data[at : at + 64]
    return bytes(data)


def hostile(seeds: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    return st.binary(max_size=300) | spoilt(seeds) | spoilt(seeds)
