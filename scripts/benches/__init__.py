"""The measurements of scripts/bench, one file per subject."""
