"""What a server says of itself and of its group."""

from __future__ import annotations

from tocsin.testing.driver import Driver


def test_a_server_by_itself_is_a_group_of_one() -> None:
    driver = Driver()
    client = driver.connect()
    client.session().producer("queue:orders").send("one")
    status = client.request("cluster.status")
    (group,) = status["groups"]
    assert group["primary"] == driver.broker.node and group["in_sync"] == [driver.broker.node]
    assert group["committed"] == group["last"] > 0 and group["destinations"] == 2, "the queue, and _DMQ"
    assert [each["node"] for each in status["client_managers"]] == [driver.broker.node]
