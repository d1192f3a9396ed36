"""Subscriptions that are not durable, through the failure of a primary."""

from __future__ import annotations

from pathlib import Path

from tests.system.clusters import ClusterProcesses

import tocsin

BEFORE, AFTER = 50, 200


def test_a_subscriber_at_another_client_manager_misses_nothing_that_is_sent_after_a_fail_over(tmp_path: Path) -> None:
    """Not durable: what the old primary had not delivered yet may go with it, but nothing that came later."""
    with (
        ClusterProcesses(tmp_path / "cluster", "--groups", "1") as cluster,
        tocsin.connect(cluster.url_of("cm-1")) as sending,
        tocsin.connect(cluster.url_of("cm-2")) as receiving,
        sending.session() as sender,
        receiving.session() as receiver,
    ):
        consumer = receiver.consumer(receiver.topic("prices"))
        producer = sender.producer(sender.topic("prices"))
        for number in range(BEFORE):
            producer.send(f"{number}")
        assert [consumer.receive_body(str, timeout=10) for _ in range(BEFORE)] == [str(each) for each in range(BEFORE)]
        cluster.command("kill", cluster.group()["primary"])
        for number in range(BEFORE, BEFORE + AFTER):
            producer.send(f"{number}")
        wanted = [str(each) for each in range(BEFORE, BEFORE + AFTER)]
        assert [consumer.receive_body(str, timeout=10) for _ in wanted] == wanted
        cluster.check_logs()
