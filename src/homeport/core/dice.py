"""Seeded dice: splitmix64 (Steele, Lea, Flood 2014). The router has one; equal choices are its."""

from dataclasses import dataclass

MASK = (1 << 64) - 1


@dataclass(slots=True)
class Dice:
    state: int

    def below(self, bound: int) -> int:
        """A whole number from 0 to bound - 1."""
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        mixed = self.state
        mixed = ((mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9) & MASK
        mixed = ((mixed ^ mixed >> 27) * 0x94D049BB133111EB) & MASK
        return (mixed ^ mixed >> 31) % bound
