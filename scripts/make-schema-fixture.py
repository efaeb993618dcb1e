#!/usr/bin/env python3
"""Makes tests/fixtures/schemas/roman.asdf: the smallest image that the schemas of Roman allow, with its arrays in the tree.

Needs roman_datamodels 1.2.
"""

from pathlib import Path

import asdf
from roman_datamodels.datamodels import ImageModel

OUT = Path(__file__).parent.parent / "tests/fixtures/schemas/roman.asdf"

with asdf.config_context() as config:
    config.all_array_storage = "inline"
    ImageModel.create_fake_data(shape=(8, 8)).save(OUT)
