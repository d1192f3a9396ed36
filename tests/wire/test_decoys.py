"""Names that nobody has look like names that somebody has."""

from __future__ import annotations

from collections import Counter

from tocsin.model.limits import PASSWORD_ITERATIONS_DEFAULT
from tocsin.wire.decoys import DRAW_BITS, Shape, Shapes
from tocsin.wire.scram import Credentials, ScramClient, ScramServer, decoy_credentials

SECRET = b"the decoys' secret, kept for long"
FEW, MANY = Shape(4_096, 24), Shape(250_000, 64)


def shown(user: str, shapes: Shapes) -> Shape:
    """What a login of this name shows, where nobody has it."""
    server = ScramServer(lambda _: None, nonce="server-nonce-0123456789", secret=SECRET, shapes=shapes)
    client = ScramClient(user, "a guess", nonce="client-nonce-0123456789")
    fields = dict(part.split("=", 1) for part in server.challenge(client.start()).decode().split(","))
    salt = decoy_credentials(user, SECRET, shapes).salt
    assert len(fields["s"]) == 4 * -(-len(salt) // 3)
    return Shape(int(fields["i"]), len(salt))


def test_only_what_users_have_is_shown() -> None:
    assert {shown(f"nobody-{number}", Shapes([MANY, MANY])) for number in range(20)} == {MANY}
    assert shown("nobody", Shapes()) == Shape(PASSWORD_ITERATIONS_DEFAULT, 16)


def test_each_is_shown_as_often_as_users_have_it_and_the_same_every_time() -> None:
    shapes = Shapes([MANY] * 30 + [FEW] * 10)
    names = [f"nobody-{number}" for number in range(400)]
    seen = [shown(name, shapes) for name in names]
    assert seen == [shown(name, shapes) for name in names]
    counts = Counter(seen)
    assert set(counts) == {FEW, MANY} and 60 < counts[FEW] < 140


def test_the_first_and_the_last_draw_are_in_range() -> None:
    shapes = Shapes([FEW, MANY])
    assert shapes.of(0) == FEW and shapes.of((1 << DRAW_BITS) - 1) == MANY


def test_the_longest_salt_is_as_random_as_a_short_one() -> None:
    decoy: Credentials = decoy_credentials("nobody", SECRET, Shapes([MANY]))
    assert len(decoy.salt) == 64 and decoy.salt[:32] != decoy.salt[32:]
