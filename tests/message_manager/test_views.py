from __future__ import annotations

from tocsin.message_manager.view import Subscription, View
from tocsin.message_manager.views import Views


def test_views_are_found_by_what_each_message_means_to_them() -> None:
    views = Views()
    views[1] = View(1, 0, Subscription("s", "me", True, False, None, False))
    views[2] = View(2, 0, Subscription(None, None, False, False, "n > 1", False))
    views[3] = View(3, 0, Subscription(None, None, False, False, None, True))
    views[0] = View(0, 0, None)
    assert (list(views.durable), list(views.selecting), list(views.no_local)) == ([1, 0], [2], [3])
    for number in (1, 2, 3):
        del views[number]
    assert (list(views), list(views.durable), list(views.selecting), list(views.no_local)) == ([0], [0], [], [])
