from __future__ import annotations

import pytest

from tocsin.client_manager.quotas import Quota, Usage
from tocsin.model.errors import ResourceExhausted


def test_a_quota_counts_up_to_its_limit_and_names_it() -> None:
    quota = Quota("A user", "sessions", 2)
    quota.add()
    quota.add()
    with pytest.raises(ResourceExhausted, match="A user has at most 2 sessions"):
        quota.add()
    quota.remove()
    quota.add()
    quota.remove(2)
    assert quota.count == 0


def test_it_is_said_whose_limit_it_is() -> None:
    for user, whose in ((None, "A connection"), ("anna", "A user")):
        usage = Usage(user)
        usage.consumers.count = 1 << 30
        with pytest.raises(ResourceExhausted, match=f"{whose} has at most"):
            usage.consumers.add()
