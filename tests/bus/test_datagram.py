from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.bus.datagram import PREFIX_BYTES, Flow, Malformed, prefix_of, read_prefix
from tocsin.runtime.datagrams import Address, Way, group_in, group_out, to_node

U16 = st.integers(1, 2**16 - 1)
ADDRESSES = st.one_of(U16.map(group_in), U16.map(group_out), st.tuples(U16, U16).map(lambda pair: to_node(*pair)))


@given(st.builds(Flow, st.integers(0, 255), ADDRESSES, U16, st.integers(1, 2**32 - 1), st.integers(1, 2**64 - 1)))
def test_a_prefix_says_who_sends_where(flow: Flow) -> None:
    prefix = prefix_of(flow)
    assert len(prefix) == PREFIX_BYTES
    assert read_prefix(prefix) == flow


def test_the_layout_is_the_one_drawn() -> None:
    flow = Flow(1, Address(Way.NODE, 0x0203, 0x0607), 0x0405, 0x0A0B0C0D, 0x1112131415161718)
    assert prefix_of(flow).hex() == "b502010303020504070600000d0c0b0a1817161514131211"


@pytest.mark.parametrize(
    "change",
    [(0, 0xB6), (1, 1), (1, 3), (3, 0), (3, 4), (10, 1), (6, 0), (12, 0), (16, 0), (3, 1), (8, 0)],
    ids=[
        "magic",
        "old",
        "new",
        "no way",
        "unknown way",
        "reserved",
        "sender",
        "boot",
        "salt",
        "target in",
        "no target",
    ],
)
def test_anything_else_is_refused(change: tuple[int, int]) -> None:
    prefix = bytearray(prefix_of(Flow(1, to_node(2, 3), 4, 5, 6)))
    prefix[change[0]] = change[1]
    with pytest.raises(Malformed):
        read_prefix(prefix)
