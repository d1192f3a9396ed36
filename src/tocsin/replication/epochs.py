"""Which epoch each record of a log has: a few numbers, because epochs only rise along a log."""

from __future__ import annotations

from bisect import bisect_right


class EpochRuns:
    """Runs of records with the same epoch. The log begins behind `base_lsn`, whose own epoch is known too."""

    __slots__ = ("_epochs", "_firsts", "last_lsn")

    def __init__(self, base_lsn: int = 0, base_epoch: int = 0) -> None:
        self._firsts, self._epochs = [base_lsn], [base_epoch]
        self.last_lsn = base_lsn

    @property
    def base_lsn(self) -> int:
        return self._firsts[0]

    @property
    def last_epoch(self) -> int:
        return self._epochs[-1]

    def append(self, epoch: int) -> int:
        assert epoch >= self._epochs[-1], "epochs rise along a log"
        self.last_lsn += 1
        if epoch != self._epochs[-1]:
            self._firsts.append(self.last_lsn)
            self._epochs.append(epoch)
        return self.last_lsn

    def cut(self, last_lsn: int) -> None:
        """Forget everything behind `last_lsn`."""
        assert self.base_lsn <= last_lsn, "what a snapshot covers is never cut"
        self.last_lsn = min(self.last_lsn, last_lsn)
        while self._firsts[-1] > self.last_lsn:
            self._firsts.pop()
            self._epochs.pop()

    def forget(self, base_lsn: int) -> None:
        """The log begins later from now on."""
        assert self.base_lsn <= base_lsn <= self.last_lsn
        place = bisect_right(self._firsts, base_lsn) - 1
        del self._firsts[:place], self._epochs[:place]
        self._firsts[0] = base_lsn

    def at(self, lsn: int) -> int:
        assert self.base_lsn <= lsn <= self.last_lsn, f"{lsn} is outside {self.base_lsn} to {self.last_lsn}"
        return self._epochs[bisect_right(self._firsts, lsn) - 1]

    def run_start(self, lsn: int) -> int:
        """The first record of the run that `lsn` is in, as far back as the log goes."""
        return self._firsts[bisect_right(self._firsts, lsn) - 1]

    def end_of(self, epoch: int) -> int:
        """The last record whose epoch is not above `epoch`; the base when there is none."""
        place = bisect_right(self._epochs, epoch)
        if place == len(self._epochs):
            return self.last_lsn
        return max(self.base_lsn, self._firsts[place] - 1)

    def runs(self) -> list[tuple[int, int]]:
        """(first LSN, epoch) of each run, the base first."""
        return list(zip(self._firsts, self._epochs, strict=True))
