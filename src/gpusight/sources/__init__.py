"""The world to typed snapshots, one module or package per source. No metric names here."""
