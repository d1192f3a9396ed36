"""How much a machine holds: the objects that can be reached from it."""

from __future__ import annotations

import gc

_OURS = ("tocsin.client_manager.", "tocsin.wire.", "tocsin.model.", "tocsin.bus.")
_CONTAINERS = (dict, list, set, frozenset, tuple)


def _opens(held: object) -> bool:
    return isinstance(held, _CONTAINERS) or f"{type(held).__module__}.".startswith(_OURS)


def weight(machine: object) -> int:
    """Objects that the machine holds; what belongs to another machine, and code, is not looked into."""
    seen = {id(machine)}
    waiting = [machine]
    while waiting:
        for held in gc.get_referents(waiting.pop()):
            if id(held) not in seen and not isinstance(held, type):
                seen.add(id(held))
                if _opens(held):
                    waiting.append(held)
    return len(seen)
