"""`gpusight top`: what a node agent or an analyzer knows, in a terminal."""
