"""Unsigned varints: the lengths and counts of Kafka's flexible request versions."""


def write_uvarint(number: int) -> bytes:
    assert number >= 0
    if number < 0x80:
        return bytes((number,))
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def read_uvarint(buffer: memoryview, at: int) -> tuple[int, int]:
    """Return the number at `at` and the position after it; IndexError if the buffer ends."""
    byte = buffer[at]
    if byte < 0x80:
        return byte, at + 1
    number = byte & 0x7F
    shift = 7
    while True:
        at += 1
        byte = buffer[at]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at + 1
        shift += 7
        if shift > 28:
            raise IndexError(at)
