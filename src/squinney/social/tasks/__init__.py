"""What the worker does: deliveries, erasures and sweeps."""
