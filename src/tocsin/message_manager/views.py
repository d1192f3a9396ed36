"""The views of a destination by their ids. Those that each message concerns are found without a look at all others."""

from __future__ import annotations

from tocsin.message_manager.view import View


class Views(dict[int, View]):
    __slots__ = ("durable", "no_local", "selecting")

    def __init__(self) -> None:
        super().__init__()
        self.durable: dict[int, View] = {}
        self.selecting: dict[int, View] = {}
        """Whose subscription has a selector."""
        self.no_local: dict[int, View] = {}

    def __setitem__(self, view_id: int, view: View) -> None:
        super().__setitem__(view_id, view)
        known = view.subscription
        if view.durable:
            self.durable[view_id] = view
        if known is not None and known.selector:
            self.selecting[view_id] = view
        if known is not None and known.no_local:
            self.no_local[view_id] = view

    def __delitem__(self, view_id: int) -> None:
        super().__delitem__(view_id)
        for some in (self.durable, self.selecting, self.no_local):
            some.pop(view_id, None)
