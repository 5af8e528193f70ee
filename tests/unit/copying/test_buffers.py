from heliograph.copying.buffers import Buffers

SIZE = 1000


def taken(buffers: Buffers) -> memoryview:
    room = buffers.room(SIZE)
    assert room is not None
    return room


def test_a_buffer_is_used_again_once_the_last_view_of_it_is_gone() -> None:
    buffers = Buffers(SIZE, 1)
    room = taken(buffers)
    room[:4] = b"text"
    part = room[:4]

    del room
    assert buffers.room(SIZE) is None, "a part of it is still in use"
    assert bytes(part) == b"text"
    del part

    assert bytes(taken(buffers)[:4]) == b"text", "it is the same memory"


def test_no_two_users_have_one_buffer_and_there_are_no_more_than_asked_for() -> None:
    buffers = Buffers(SIZE, 3)
    held = [taken(buffers) for _ in range(3)]

    for number, room in enumerate(held):
        room[:] = bytes([number]) * SIZE

    assert [set(room) for room in held] == [{0}, {1}, {2}]
    assert buffers.room(SIZE) is None
    del held[1]
    assert set(taken(buffers)) == {1}


def test_memory_is_taken_only_as_it_is_needed() -> None:
    buffers = Buffers(SIZE, 4)
    for _ in range(10):
        taken(buffers)
    assert len(buffers._pool) == 1


def test_what_is_larger_than_a_buffer_gets_none() -> None:
    assert Buffers(SIZE, 4).room(SIZE + 1) is None
