"""What scripts/bench measures, a subject a file."""
