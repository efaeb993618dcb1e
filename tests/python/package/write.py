"""Files for the tests, like the products of the Roman telescope, but smaller."""

import asdf
import numpy

RNG = numpy.random.default_rng(17)
#: No power of two divides a row, as in Roman's detectors, so that no part of a compressed block is whole rows.
IMAGE = RNG.normal(size=(511, 1022)).astype("f4")
ARRAYS = {
    "data": IMAGE,
    "dq": RNG.integers(0, 9, IMAGE.shape).astype("u4"),
    "cube": RNG.integers(0, 99, (6, 30, 40)).astype(">i2"),
    "line": numpy.arange(5000.0),
}
CODECS = ["raw", "zlib", "bzp2", "lz4", "zstd", "blsc"]


def tree():
    meta = {"filename": "r0000101.asdf", "exposure": {"nresultants": 8}, "telescope": "ROMAN"}
    left_out = {
        "masked": numpy.ma.masked_array(numpy.arange(6), [0, 1, 0, 1, 0, 0]),
        "stars": numpy.array([(1, 2.5), (3, 4.5)], [("id", "<i4"), ("x", "<f8")]),
        "turned": IMAGE.T,
        "stepped": IMAGE[::7, ::5],
    }
    return {"roman": {"meta": meta, **ARRAYS, **left_out}, "top": numpy.arange(3), "name": "Sample"}


def write_files(folder):
    for codec in CODECS:
        options = {"all_array_compression": codec} if codec != "raw" else {}
        if codec == "lz4":
            # Parts of 100 000 bytes; a row of the image has 4088.
            options["compression_kwargs"] = {"compression_block_size": 100_000}
        asdf.AsdfFile(tree()).write_to(folder / f"{codec}.asdf", all_array_storage="internal", **options)
    for night in range(3):
        asdf.AsdfFile({"roman": {"data": IMAGE + night}}).write_to(folder / f"night{night}.asdf", all_array_storage="internal")
