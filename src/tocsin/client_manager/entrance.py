"""How many may come in: a bound of all connections, and one of those of an address that have not logged in yet.

Without the second, one host that opens connections and says nothing takes all the room for as long as a login may
take, again and again.
"""

from __future__ import annotations

from tocsin.model.entrance_limits import UNPROVED_PER_ADDRESS_MIN, UNPROVED_SHARE
from tocsin.model.errors import ResourceExhausted
from tocsin.model.peer_place import place_of


class Entrance:
    """Counts connections from the moment they are taken until their transports are gone, and those that have not logged
    in by where they come from. One that is being closed still has a descriptor, so it counts.
    """

    __slots__ = ("_connections_max", "_counts", "_places", "per_address_max")

    def __init__(self, connections_max: int) -> None:
        self._connections_max = connections_max
        self.per_address_max = max(UNPROVED_PER_ADDRESS_MIN, connections_max // UNPROVED_SHARE)
        # Of all connections; None: it has logged in.
        self._places: dict[int, str | None] = {}
        self._counts: dict[str, int] = {}

    def enter(self, connection: int, peer: str) -> None:
        """ResourceExhausted: it has to go."""
        if len(self._places) >= self._connections_max:
            raise ResourceExhausted(
                f"The server has {self._connections_max} connections, which is the most it has room for; try another"
                " server, or this one later."
            )
        place = place_of(peer)
        count = self._counts.get(place, 0)
        if count >= self.per_address_max:
            raise ResourceExhausted(
                f"{count} connections from your address have not logged in yet, which is the most; try again later."
            )
        self._places[connection] = place
        self._counts[place] = count + 1

    def proved(self, connection: int) -> None:
        """It has logged in."""
        if connection in self._places:
            self.gone(connection)
            self._places[connection] = None

    def gone(self, connection: int) -> None:
        """Its transport is."""
        place = self._places.pop(connection, None)
        if place is None:
            return
        if self._counts[place] == 1:
            del self._counts[place]
        else:
            self._counts[place] -= 1
