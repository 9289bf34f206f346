"""The engine's decisions over a model of a machine: fleets and traces that no test machine has."""
