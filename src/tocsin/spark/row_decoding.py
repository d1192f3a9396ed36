"""Values that only Python can decode: row by row, inside Spark's Python workers, one Arrow batch at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from tocsin.spark.bad_rows import BAD

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

_BOTH = "_decoded"


class RowDecoder(Protocol):
    """Travels to the workers, so it holds plain data; what it needs there it makes in `open`."""

    @property
    def misfit(self) -> str:
        """The reason of rows that can't be decoded."""

    def data_type(self) -> DataType:
        """Of the column that is made."""

    def open(self) -> Callable[[bytes], Any]:
        """A function from bytes to a value of that type; it raises for bytes that it can't read."""


def decode_rows(df: DataFrame, column: str, into: str, decoder: RowDecoder) -> DataFrame:
    """Adds the decoded column, and the reason to `bad` where that is null and the bytes can't be decoded."""
    import pyarrow as pa
    from pyspark.sql import functions as f
    from pyspark.sql.types import StringType, StructField, StructType

    both = StructType([StructField("data", decoder.data_type()), StructField("bad", StringType())])
    opened: list[BatchDecoder] = []

    def decode(values: Any, reasons: Any) -> Any:
        # Once for each worker that gets this function, and not for each batch.
        if not opened:
            opened.append(BatchDecoder(decoder))
        return opened[0].decode(values, reasons)

    # By these Spark knows what kind of function it is; they must be types, and not the words that they are here.
    decode.__annotations__ = {"values": pa.Array, "reasons": pa.Array, "return": pa.Array}
    function = f.arrow_udf(decode, both)
    decoded = df.withColumn(_BOTH, function(f.col(column), f.col(BAD)))
    found = f.col(_BOTH)
    return decoded.withColumn(BAD, found["bad"]).withColumn(into, found["data"]).drop(_BOTH)


class BatchDecoder:
    """A decoder at work."""

    def __init__(self, decoder: RowDecoder) -> None:
        from pyspark.sql.pandas.types import to_arrow_type

        self._decode = decoder.open()
        self._misfit = decoder.misfit
        self._type = to_arrow_type(decoder.data_type(), timezone="UTC")

    def decode(self, values: Any, reasons: Any) -> Any:
        """Arrow arrays of bytes and of reasons why they are bad already: a struct of what they mean and the reasons."""
        import pyarrow as pa

        why: list[str | None] = reasons.to_pylist()
        data: list[Any] = []
        for row, value in enumerate(values.to_pylist()):
            found = None
            if why[row] is None:
                try:
                    found = self._decode(value)
                except Exception:
                    # Decoders of foreign bytes raise whatever they stumble over; a bad row must not end the stream.
                    why[row] = self._misfit
            data.append(found)
        array = self._as_arrow(data, why)
        return pa.StructArray.from_arrays([array, pa.array(why, pa.string())], names=["data", "bad"])

    def _as_arrow(self, data: list[Any], why: list[str | None]) -> Any:
        import pyarrow as pa

        refused = (pa.ArrowException, OverflowError, TypeError, ValueError)
        try:
            return pa.array(data, self._type)
        except refused:
            # Some value is out of its type's range: rows are tried one by one to find which.
            for row, value in enumerate(data):
                try:
                    pa.array([value], self._type)
                except refused:
                    data[row], why[row] = None, self._misfit
            return pa.array(data, self._type)
