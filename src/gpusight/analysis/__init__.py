"""From windows to verdicts: who uses what they hold. Pure: no network, no files, no clock."""
