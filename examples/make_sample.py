"""Makes sample.asdf beside itself: a small synthetic galaxy and a table of its stars.

Needs asdf and numpy (tests/python/requirements.txt). The same bytes come out every time.
"""

import os

import asdf
import numpy as np

SIZE = 160
rng = np.random.default_rng(31)
y, x = np.mgrid[-1 : 1 : SIZE * 1j, -1 : 1 : SIZE * 1j]
radius, angle = np.hypot(x, 1.6 * y), np.arctan2(1.6 * y, x)
arms = 1 + 0.8 * np.cos(2 * angle - 9 * np.log(radius + 0.05))
light = 900 * np.exp(-5 * radius) * arms + 2000 * np.exp(-((radius / 0.06) ** 2))

stars = np.zeros(40, [("id", "<i4"), ("x", "<f4"), ("y", "<f4"), ("magnitude", "<f4")])
stars["id"] = np.arange(1, 41)
stars["x"], stars["y"] = rng.uniform(2, SIZE - 3, (2, 40))
stars["magnitude"] = rng.uniform(14, 20, 40)
for star in stars:
    distance = ((x - x[0, int(star["x"])]) ** 2 + (y - y[int(star["y"]), 0]) ** 2) * SIZE**2
    light += 10 ** ((20 - star["magnitude"]) / 2.2) * np.exp(-distance / 8)

sky = rng.poisson(light + 12).astype("<i2")
tree = {
    "object": {"name": "Sample Galaxy", "exposure": 1200.0, "filter": "V"},
    "image": sky,
    "mask": (sky > 1500).astype("u1"),
    "stars": stars,
}
file = asdf.AsdfFile(tree)
file.set_array_compression(tree["image"], "bzp2")
file.set_array_compression(tree["mask"], "zlib")
file.write_to(os.path.join(os.path.dirname(os.path.abspath(__file__)), "sample.asdf"))
