"""Background work: deliveries, erasures and sweeps."""
