"""Nouns shared by every part: identities, units, time. No I/O, standard library only."""
