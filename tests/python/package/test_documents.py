"""The sessions of docs/python.md."""

import re
import shutil

import numpy
import pytest
from conftest import ROOT
from write import ARRAYS, CODECS, IMAGE

FILES, XARRAY, ICECHUNK = re.findall(r"```python\n(.*?)```", (ROOT / "docs/python.md").read_text(), re.S)


def test_files(files, tmp_path, monkeypatch):
    shutil.copy(ROOT / "examples/sample.asdf", tmp_path / "galaxy.asdf")
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(FILES.replace("/data", str(files)), names)
    assert names["text"].startswith("#ASDF") and names["name"] == "Sample Galaxy" and names["codec"] == "bzp2"
    assert names["image"].max() == 3208 and len(names["sizes"]) == 1 + len(CODECS) + 3


def test_xarray(server):
    names = {}
    exec(XARRAY.replace("https://host/galaxy", f"{server}/lz4"), names)
    assert names["brightest"] == IMAGE.max() and names["dataset"]["data"].chunks


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr")
def test_icechunk(files, tmp_path, monkeypatch, codec):
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(ICECHUNK.replace("/data/", f"{files}/").replace("galaxy.asdf", f"{codec}.asdf"), names)
    expected = {**ARRAYS, "stepped": IMAGE[::7, ::5]}
    assert "line" in names["dataset"] and expected.keys() >= {*names["dataset"]}
    for name in names["dataset"]:
        numpy.testing.assert_array_equal(names["dataset"][name].values, expected[name])
