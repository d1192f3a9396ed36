"""JMS value types narrower than Python's own, to ask for a width: Int(7) travels as 32 bits, 7 as 64."""

from tocsin.model.values import Byte, Char, Double, Float, Int, Long, Short

__all__ = ["Byte", "Char", "Double", "Float", "Int", "Long", "Short"]
