//! Files of other formats, recognised by their first bytes for a clear message.

/// Number of bytes at the start of a file that [`describe`] needs.
pub(super) const HEAD: usize = 512;

/// The magic of a format, the offset of the magic, and the message after the file's name.
const TABLE: &[(&[u8], usize, &str)] = &[
    (b"\x1f\x8b", 0, "is compressed by gzip; decompress it first: gunzip FILE"),
    (b"BZh", 0, "is compressed by bzip2; decompress it first: bunzip2 FILE"),
    (b"\xfd7zXZ\0", 0, "is compressed by xz; decompress it first: unxz FILE"),
    (b"\x28\xb5\x2f\xfd", 0, "is compressed by zstd; decompress it first: unzstd FILE"),
    (b"\x04\x22\x4d\x18", 0, "is compressed by lz4; decompress it first: unlz4 FILE"),
    (b"PK\x03\x04", 0, "is a zip archive, as .npz files are, too; unpack it first: unzip FILE -d DIRECTORY"),
    (b"7z\xbc\xaf\x27\x1c", 0, "is a 7z archive; unpack it first"),
    (b"ustar", 257, "is a tar archive; unpack it first: tar -xf FILE"),
    (b"SIMPLE  =", 0, "is a FITS file without an ASDF extension; open it with astropy.io.fits or DS9"),
    (b"\x89HDF\r\n\x1a\n", 0, "is an HDF5 file; open it with h5py"),
    (b"CDF", 0, "is a NetCDF file; open it with netCDF4 or xarray"),
    (b"\x93NUMPY", 0, "is a .npy file; open it with numpy.load"),
    (b"PAR1", 0, "is a Parquet file; open it with pandas or DuckDB"),
    (b"\x89PNG\r\n", 0, "is a PNG picture"),
    (b"\xff\xd8\xff", 0, "is a JPEG picture"),
    (b"II*\0", 0, "is a TIFF picture"),
    (b"MM\0*", 0, "is a TIFF picture"),
    (b"%PDF-", 0, "is a PDF document"),
    (b"\x7fELF", 0, "is a program"),
    (b"SQLite format 3", 0, "is an SQLite database"),
    (b"%YAML", 0, "is a YAML text; an ASDF file begins with a line '#ASDF 1.0.0'"),
    (b"version https://git-lfs", 0, "is a pointer of Git LFS; fetch the file itself: git lfs pull"),
];

/// Returns a message about the file that begins with `head`; `None` if no known magic is found.
pub(crate) fn describe(head: &[u8]) -> Option<&'static str> {
    let is_at =
        |(magic, at, _): &&(&[u8], usize, &str)| head.get(*at..).is_some_and(|rest| rest.starts_with(magic));
    TABLE.iter().find(is_at).map(|(_, _, what)| *what)
}
