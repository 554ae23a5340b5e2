"""Long runs with faults at random from a seed."""
