//! Builder of Blosc2 chunks and frames, correct or wrong.

/// The flags of an extended header.
const EXTENDED: u8 = 5;
const MEMCPYED: u8 = 2;
const NOT_SPLIT: u8 = 16;
const ZSTD: u8 = 4 << 5;

/// Returns the header of a chunk.
pub fn header(flags: u8, typesize: u8, sizes: [usize; 3]) -> Vec<u8> {
    let mut header = vec![5, 1, flags | EXTENDED, typesize];
    for size in sizes {
        header.extend((size as u32).to_le_bytes());
    }
    header.resize(32, 0);
    header
}

/// Returns a chunk of uncompressed data.
pub fn stored(data: &[u8]) -> Vec<u8> {
    let blocksize = data.len().clamp(1, 4096);
    let mut chunk = header(MEMCPYED, 1, [data.len(), blocksize, data.len() + 32]);
    chunk.extend(data);
    chunk
}

/// Returns a chunk whose blocks are compressed by zstd, one stream each.
pub fn compressed(data: &[u8], blocksize: usize) -> Vec<u8> {
    let blocks: Vec<Vec<u8>> =
        data.chunks(blocksize).map(|block| zstd::bulk::compress(block, 1).unwrap()).collect();
    let streams: usize = blocks.iter().map(|block| block.len() + 4).sum();
    let table = 32 + 4 * blocks.len();
    let mut chunk = header(NOT_SPLIT | ZSTD, 1, [data.len(), blocksize.min(data.len()), table + streams]);
    let mut at = table;
    for block in &blocks {
        chunk.extend((at as u32).to_le_bytes());
        at += block.len() + 4;
    }
    for block in &blocks {
        chunk.extend((block.len() as u32).to_le_bytes());
        chunk.extend(block);
    }
    chunk
}

/// The parts of a frame, each of which can be made wrong.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    pub nbytes: u64,
    /// 0 if chunks differ in length.
    pub chunksize: u32,
    pub typesize: u32,
    pub chunks: Vec<Vec<u8>>,
    /// Replacement of the correct offsets.
    pub offsets: Option<Vec<i64>>,
    /// Metalayers of the header, by name.
    pub layers: Vec<(&'static str, Vec<u8>)>,
    /// Variable-length metalayers, by name, as chunks.
    pub trailing: Vec<(&'static str, Vec<u8>)>,
    pub behind: Vec<u8>,
}

impl Frame {
    /// Returns a frame of chunks of `chunksize` bytes, made by `chunk`.
    pub fn new(chunksize: usize, data: &[u8], chunk: impl Fn(&[u8]) -> Vec<u8>) -> Self {
        Self {
            nbytes: data.len() as u64,
            chunksize: chunksize as u32,
            typesize: 1,
            chunks: data.chunks(chunksize).map(chunk).collect(),
            ..Self::default()
        }
    }

    /// Returns the same chunks in a frame that does not state their length.
    pub fn uneven(self) -> Self {
        Self { chunksize: 0, ..self }
    }

    /// Returns a frame with the metalayer of an array.
    pub fn described(self, shape: &[i64], chunk: &[i32], block: &[i32], dtype: &str) -> Self {
        let mut layer = vec![0x97, 0, shape.len() as u8, 0x90 + shape.len() as u8];
        for len in shape {
            layer.push(0xd3);
            layer.extend(len.to_be_bytes());
        }
        for lens in [chunk, block] {
            layer.push(0x90 + lens.len() as u8);
            for len in lens {
                layer.push(0xd2);
                layer.extend(len.to_be_bytes());
            }
        }
        layer.extend([0, 0xdb]);
        layer.extend((dtype.len() as u32).to_be_bytes());
        layer.extend(dtype.as_bytes());
        Self { layers: vec![("b2nd", layer)], ..self }
    }

    /// Returns the offsets of the chunks in the file.
    pub fn places(&self) -> Vec<usize> {
        let start = 87 + layers(87, &self.layers).len();
        let lens = self.chunks.iter().scan(start, |at, chunk| {
            let here = *at;
            *at += chunk.len();
            Some(here)
        });
        lens.collect()
    }

    /// Returns the bytes of the file.
    pub fn build(&self) -> Vec<u8> {
        let of_header = layers(87, &self.layers);
        let header = 87 + of_header.len();
        let chunks = self.chunks.concat();
        let mut body = chunks.clone();
        if self.nbytes > 0 {
            let right = self.places().into_iter().map(|at| (at - header) as i64).collect();
            let offsets: Vec<i64> = self.offsets.clone().unwrap_or(right);
            let offsets: Vec<u8> = offsets.iter().flat_map(|offset| offset.to_le_bytes()).collect();
            body.extend(stored(&offsets));
        }
        let mut trailer = vec![0x94, 1];
        trailer.extend(layers(2, &self.trailing));
        let len = trailer.len() as u32 + 23;
        trailer.push(0xce);
        trailer.extend(len.to_be_bytes());
        trailer.extend([0xd8, 0]);
        trailer.extend([0; 16]);

        let mut file = b"\x9e\xa8b2frame\0\xd2".to_vec();
        file.extend((header as u32).to_be_bytes());
        file.push(0xcf);
        file.extend(((header + body.len() + trailer.len()) as u64).to_be_bytes());
        let varies = if self.chunksize == 0 { 0x40 } else { 0 };
        file.extend([0xa4, 0x13 | varies, 0, 0x55, 0, 0xd3]);
        file.extend(self.nbytes.to_be_bytes());
        file.push(0xd3);
        file.extend((chunks.len() as u64).to_be_bytes());
        for size in [self.typesize, 0, self.chunksize] {
            file.push(0xd2);
            file.extend(size.to_be_bytes());
        }
        file.extend([0xd1, 0, 1, 0xd1, 0, 1, 0xc2, 0xd8, 6]);
        file.resize(87, 0);
        file.extend(of_header);
        file.extend(body);
        file.extend(trailer);
        file.extend(&self.behind);
        file
    }
}

/// Returns the bytes of metalayers that begin at `start`.
fn layers(start: usize, layers: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let map: usize = layers.iter().map(|(name, _)| 1 + name.len() + 5).sum();
    let mut bytes = vec![0x93, 0xcd];
    bytes.extend((map as u16 + 6).to_be_bytes());
    bytes.push(0xde);
    bytes.extend((layers.len() as u16).to_be_bytes());
    let mut at = start + bytes.len() + map + 3;
    for (name, value) in layers {
        bytes.push(0xa0 + name.len() as u8);
        bytes.extend(name.as_bytes());
        bytes.push(0xd2);
        bytes.extend((at as u32).to_be_bytes());
        at += 5 + value.len();
    }
    bytes.push(0xdc);
    bytes.extend((layers.len() as u16).to_be_bytes());
    for (_, value) in layers {
        bytes.push(0xc6);
        bytes.extend((value.len() as u32).to_be_bytes());
        bytes.extend(value);
    }
    bytes
}
