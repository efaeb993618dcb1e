"""Writes one file of each product into FOLDER, with the packages that people write them with."""

import gzip
import shutil
import sys
import warnings
from pathlib import Path

import asdf
import gwcs
import numpy as np
from astropy import coordinates as coord
from astropy import units as u
from astropy.modeling import models as m
from astropy.nddata import StdDevUncertainty
from astropy.table import QTable, Table
from astropy.time import Time, TimeDelta
from astropy.wcs import WCS
from gwcs import coordinate_frames as cf
from gwcs.geometry import CartesianToSpherical, SphericalToCartesian

warnings.simplefilter("ignore")
folder = Path(sys.argv[1])
rng = np.random.default_rng(5)


def sky_wcs(shape, ra=269.7, dec=66.1):
    """A gwcs like romancal's for a level 2 image: distortion, V2 and V3, velocity aberration, rotation to the sky."""
    ny, nx = shape
    half = max(shape) / 2
    polynomials = []
    for axis in range(2):
        made = m.Polynomial2D(4)
        for name in made.param_names:
            i, j = map(int, name[1:].split("_"))
            linear = ((i, j) == (1 - axis, axis)) * 0.11
            setattr(made, name, linear if i + j < 2 else rng.uniform(-1, 1) * 0.11 * 0.02 * half / (half ** (i + j) * 3 ** (i + j - 2)))
        polynomials.append(made)
    v2, v3 = 1312.9, -1040.7
    detector = (m.Shift(-nx / 2) & m.Shift(-ny / 2) | m.Mapping((0, 1, 0, 1)) | polynomials[0] & polynomials[1]
                | m.Shift(v2) & m.Shift(v3))
    aberration = m.Scale(1.00001) & m.Scale(1.00001) | m.Shift(1e-3) & m.Shift(-1e-3)
    sky = (m.Scale(1 / 3600) & m.Scale(1 / 3600) | SphericalToCartesian(wrap_lon_at=180)
           | m.RotationSequence3D([v2 / 3600, -v3 / 3600, 30.0, dec, -ra], "zyxyz") | CartesianToSpherical(wrap_lon_at=360))
    frames = [cf.Frame2D(name="detector", axes_order=(0, 1), unit=(u.pix, u.pix))]
    frames += [cf.Frame2D(name=name, axes_order=(0, 1), unit=(u.arcsec, u.arcsec)) for name in ["v2v3", "v2v3vacorr"]]
    world = cf.CelestialFrame(name="world", reference_frame=coord.ICRS(), unit=(u.deg, u.deg))
    made = gwcs.WCS([*zip(frames, [detector, aberration, sky]), (world, None)])
    made.bounding_box = ((-0.5, nx - 0.5), (-0.5, ny - 0.5))
    return made


def fits_wcs(*axes):
    made = WCS(naxis=len(axes))
    made.wcs.ctype, made.wcs.cunit = [axis[0] for axis in axes], [axis[1] for axis in axes]
    made.wcs.cdelt, made.wcs.crpix = [axis[2] for axis in axes], [3.0] * len(axes)
    made.wcs.set()
    return made


def helioprojective(start=None):
    """A gwcs as dkist composes it, with the observer of sunpy; with `start` also of wavelengths."""
    from dkist.wcs.models import generate_celestial_transform
    from sunpy.coordinates import frames

    observer = frames.HeliographicStonyhurst(10 * u.deg, 3 * u.deg, 0.98 * u.AU, obstime="2026-01-01")
    frame = frames.Helioprojective(obstime="2026-01-01", observer=observer)
    world = cf.CelestialFrame(reference_frame=frame, unit=(u.arcsec, u.arcsec), name="sky", axes_names=("lon", "lat"))
    transform = generate_celestial_transform(crpix=[40, 30] * u.pix, cdelt=[0.5, 0.6] * u.arcsec / u.pix,
                                             pc=[[0.9, 0.1], [-0.1, 0.95]] * u.pix, crval=[100, -200] * u.arcsec)
    if start is not None:
        transform = transform & m.Linear1D(0.01 * u.nm / u.pix, start)
        world = cf.CompositeFrame([world, cf.SpectralFrame(axes_order=(2,), unit=u.nm, name="wavelength")])
    count = transform.n_inputs
    pixels = cf.CoordinateFrame(naxes=count, axes_type=["PIXEL"] * count, axes_order=tuple(range(count)), unit=[u.pix] * count, name="pixels")
    return gwcs.WCS([(pixels, transform), (world, None)])


SKY = [("RA---TAN", "deg", -1e-4), ("DEC--TAN", "deg", 1e-4)]


def noise(*shape):
    return rng.normal(100, 10, shape).astype("f4")


def roman():
    from roman_datamodels.datamodels._core import MODEL_REGISTRY

    for model in MODEL_REGISTRY.values():
        name = model.__name__.removesuffix("Model")
        made = model.create_fake_data(shape=(3, 40, 50))
        if name == "Image":
            # Large enough for several parts of 4 MiB.
            made = model.create_fake_data(shape=(1500, 1100))
            made["data"], made["err"] = noise(1500, 1100), noise(1500, 1100).astype("f2")
            made.meta.wcs = sky_wcs((1500, 1100))
        made.save(folder / f"roman-{name}.asdf")


def jwst():
    from stdatamodels.jwst import datamodels

    image = datamodels.ImageModel((200, 300))
    image.data, image.err = noise(200, 300), noise(200, 300)
    image.dq = np.zeros((200, 300), "u4")
    image.meta.instrument.name, image.meta.instrument.filter, image.meta.telescope = "NIRCAM", "F200W", "JWST"
    image.meta.wcs = sky_wcs((200, 300))
    image.save(str(folder / "jwst-image_cal.fits"))
    image.save(str(folder / "jwst-image.asdf"))
    distortion = datamodels.DistortionModel(model=m.Polynomial2D(2) & m.Polynomial2D(2))
    distortion.save(str(folder / "jwst-distortion.asdf"))


def dkist():
    from importlib.resources import files

    data = files("dkist.data.test")
    shutil.copy(data / "EIT" / "eit_test_dataset.asdf", folder / "dkist-eit.asdf")
    shutil.copy(data / "test_tiled_dataset-1.1.0_dataset-1.2.0.asdf", folder / "dkist-tiled.asdf")
    for name, source in {"cryo": "croppable_cryo.asdf.gz", "inversion": "test_L2_inversion.asdf.gz"}.items():
        with gzip.open(data / source) as packed, open(folder / f"dkist-{name}.asdf", "wb") as file:
            shutil.copyfileobj(packed, file)


def weldx():
    import weldx
    from weldx import Q_, LocalCoordinateSystem, TimeSeries, WeldxFile

    times = Q_(np.linspace(0, 10, 50), "s")
    position = Q_(np.stack([np.linspace(0, 1, 50)] * 3, axis=1), "mm")
    tree = {"current": TimeSeries(Q_(rng.normal(200, 5, 50), "A"), times),
            "torch": LocalCoordinateSystem(coordinates=position, time=times),
            "groove": weldx.get_groove("VGroove", workpiece_thickness=Q_(5, "mm"), groove_angle=Q_(50, "deg"), root_face=Q_(1, "mm"), root_gap=Q_(1, "mm"))}
    WeldxFile(str(folder / "weldx-welding.asdf"), tree=tree, mode="rw").sync(all_array_compression="lz4")


def sun():
    import sunpy.map
    from ndcube import NDCube
    from specutils import Spectrum
    from sunpy.coordinates import frames

    centre = coord.SkyCoord(10 * u.arcsec, -20 * u.arcsec, obstime="2026-01-01", observer="earth", frame=frames.Helioprojective)
    header = sunpy.map.make_fitswcs_header(noise(60, 80), centre, scale=[2.4, 2.4] * u.arcsec / u.pix, telescope="SDO", instrument="AIA", wavelength=171 * u.angstrom)
    asdf.AsdfFile({"map": sunpy.map.Map(noise(60, 80), header)}).write_to(folder / "sunpy-map.asdf")
    asdf.AsdfFile({"data": noise(60, 80), "meta": {"wcs": helioprojective()}}).write_to(folder / "sunpy-gwcs.asdf")
    asdf.AsdfFile({"data": noise(5, 60, 80), "meta": {"wcs": helioprojective(500 * u.nm)}}).write_to(folder / "sunpy-gwcs-cube.asdf")
    plane = NDCube(noise(60, 80), wcs=fits_wcs(*SKY), unit=u.Jy, uncertainty=StdDevUncertainty(noise(60, 80)))
    cube = NDCube(noise(5, 60, 80), wcs=fits_wcs(*SKY, ("WAVE", "m", 1e-10)), unit=u.ct, mask=noise(5, 60, 80) > 120)
    asdf.AsdfFile({"plane": plane, "cube": cube, "gwcs": NDCube(noise(60, 80), wcs=sky_wcs((60, 80)))}).write_to(folder / "ndcube.asdf")
    axis = np.linspace(500, 600, 100) * u.nm
    spectrum = Spectrum(flux=noise(100) * u.Jy, spectral_axis=axis, uncertainty=StdDevUncertainty(noise(100)), mask=noise(100) > 110)
    asdf.AsdfFile({"spectrum": spectrum, "several": Spectrum(flux=noise(4, 100) * u.Jy, spectral_axis=axis)}).write_to(folder / "specutils.asdf")


def astropy():
    times = Time("2026-01-01T00:00:00") + TimeDelta(np.arange(20.0), format="sec")
    table = QTable({"id": np.arange(20), "flux": noise(20) * u.Jy, "z": noise(20) + 1j * noise(20), "time": times,
                    "name": np.array([f"star {n}" for n in range(20)]), "sky": coord.SkyCoord(noise(20), noise(20) / 10, unit="deg"),
                    "delta": TimeDelta(np.arange(20.0), format="sec")}, meta={"observer": "me"})
    tree = {"table": Table({"a": np.arange(5), "b": np.ma.masked_array(np.arange(5.0), [0, 1, 0, 0, 1])}), "qtable": table,
            "times": times, "model": m.Polynomial2D(3), "uncertainty": StdDevUncertainty(noise(5, 6), unit="Jy"),
            "wcs": {"wcs": fits_wcs(*SKY), "data": noise(30, 40)}}
    asdf.AsdfFile(tree).write_to(folder / "astropy.asdf")


def abacus():
    from abacusnbody.data.asdf import BloscCompressor

    # abacusutils 2.1.2 expects memoryviews, asdf 5 passes arrays.
    compress = BloscCompressor.compress
    BloscCompressor.compress = lambda self, data, **options: compress(self, memoryview(data), **options)
    halos = {"id": np.arange(50000), "N": rng.integers(50, 5000, 50000).astype("u4"), "x_com": noise(50000, 3)}
    asdf.AsdfFile({"data": halos, "header": {"BoxSize": 500.0}}).write_to(
        folder / "abacus-halos.asdf", all_array_compression="blsc", compression_kwargs={"compression_block_size": 1 << 16, "blosc_block_size": 1 << 14, "typesize": "auto"})


def chunked():
    import asdf_zarr.storage
    import zarr

    array = zarr.array(np.arange(6 * 9, dtype="f8").reshape(6, 9), chunks=(2, 3), compressor=None)
    packed = zarr.array(noise(100, 90), chunks=(40, 40))
    # Of its chunks, only some were written.
    sparse = zarr.create((100, 90), chunks=(40, 40), dtype="f4", fill_value=float("nan"))
    sparse[40:80, :40] = noise(40, 40)
    arrays = {"array": array, "packed": packed, "sparse": sparse}
    asdf.AsdfFile({name: asdf_zarr.storage.to_internal(one) for name, one in arrays.items()}).write_to(folder / "asdf-zarr.asdf")


def blosc2_array():
    import blosc2

    blosc2.asarray(noise(100, 90), chunks=(40, 40), urlpath=str(folder / "blosc2-array.b2nd"), mode="w")


def hoomd():
    import gsd.hoomd

    with gsd.hoomd.open(str(folder / "hoomd.gsd"), "w") as file:
        for step in range(5):
            frame = gsd.hoomd.Frame()
            frame.configuration.step, frame.configuration.box = step, [10, 10, 10, 0, 0, 0]
            frame.particles.N, frame.particles.types, frame.particles.typeid = 30, ["A", "B"], [0] * 30
            frame.particles.position = noise(30, 3) if step != 2 else last
            last = frame.particles.position
            frame.log = {"energy": np.array([float(step)])}
            file.append(frame)


failed = 0
for product in [roman, jwst, dkist, weldx, sun, astropy, abacus, chunked, blosc2_array, hoomd]:
    try:
        product()
    except Exception as error:
        print(f"{product.__name__}: {type(error).__name__}: {error}", file=sys.stderr)
        failed = 1
sys.exit(failed)
