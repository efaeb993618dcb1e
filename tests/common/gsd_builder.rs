//! Builder of GSD files of both layouts, intact or damaged.
//!
//! ```text
//! let built = GsdBuilder::new().chunk(0, "a/b", [3, 1], 9, &data).build();
//! built.bytes            the file on disk
//! built.set(0, TYPE, 12) damages the first entry
//! ```

/// Fields of an entry: offset and length.
pub const FRAME: (usize, usize) = (0, 8);
pub const ROWS: (usize, usize) = (8, 8);
pub const LOCATION: (usize, usize) = (16, 8);
pub const COLUMNS: (usize, usize) = (24, 4);
pub const ID: (usize, usize) = (28, 2);
pub const TYPE: (usize, usize) = (30, 1);
pub const FLAGS: (usize, usize) = (31, 1);

/// Size of an element in bytes, for types 1 and up.
pub const SIZES: [u64; 11] = [1, 2, 4, 8, 1, 2, 4, 8, 4, 8, 1];

/// The type in numpy headers, for types 1 and up except the last one.
pub const DESCRS: [&str; 10] =
    ["'|u1'", "'<u2'", "'<u4'", "'<u8'", "'|i1'", "'<i2'", "'<i4'", "'<i8'", "'<f4'", "'<f8'"];

/// A chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    pub frame: u64,
    pub name: Vec<u8>,
    pub shape: [u64; 2],
    pub kind: u8,
    pub data: Vec<u8>,
}

/// A file to build. By default of version 2.1, with an index large enough for its chunks.
#[derive(Clone, Debug)]
pub struct GsdBuilder {
    version: u32,
    slots: Option<u64>,
    dead: usize,
    schema: (Vec<u8>, u32),
    chunks: Vec<Chunk>,
}

/// A built file.
#[derive(Clone, Debug)]
pub struct Built {
    pub bytes: Vec<u8>,
    /// Offset of the index.
    pub index: usize,
    /// Offset and capacity in bytes of the list of names.
    pub names: (usize, usize),
    /// The chunks in the order of the index.
    pub entries: Vec<Chunk>,
}

impl Default for GsdBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl GsdBuilder {
    pub fn new() -> Self {
        Self {
            version: 0x2_0001,
            slots: None,
            dead: 0,
            schema: (b"sample".to_vec(), 0x1_0002),
            chunks: Vec::new(),
        }
    }

    /// Sets another version, `0xaaaabbbb`.
    pub fn version(self, version: u32) -> Self {
        Self { version, ..self }
    }

    /// Sets the schema and its version.
    pub fn schema(self, schema: &str, version: u32) -> Self {
        Self { schema: (schema.into(), version), ..self }
    }

    /// Sets the number of slots of the index; the default is a power of two, at least 128.
    pub fn slots(self, slots: u64) -> Self {
        Self { slots: Some(slots), ..self }
    }

    /// Inserts unused bytes before the index.
    pub fn dead(self, dead: usize) -> Self {
        Self { dead, ..self }
    }

    /// Adds a chunk of type `kind`.
    pub fn chunk(
        mut self,
        frame: u64,
        name: impl AsRef<[u8]>,
        shape: [u64; 2],
        kind: u8,
        data: &[u8],
    ) -> Self {
        let (name, data) = (name.as_ref().to_vec(), data.to_vec());
        self.chunks.push(Chunk { frame, name, shape, kind, data });
        self
    }

    /// Adds a chunk of bytes.
    pub fn bytes(self, frame: u64, name: impl AsRef<[u8]>, data: &[u8]) -> Self {
        self.chunk(frame, name, [data.len() as u64, 1], 1, data)
    }

    pub fn build(&self) -> Built {
        let is_old = self.version < 0x2_0000;
        let mut ids: Vec<&[u8]> = Vec::new();
        let mut id_of = |name| {
            ids.iter().position(|known| *known == name).unwrap_or_else(|| {
                ids.push(name);
                ids.len() - 1
            })
        };
        let mut bytes = vec![0; 256];
        let mut entries: Vec<(u16, usize, &Chunk)> = Vec::new();
        for chunk in &self.chunks {
            entries.push((id_of(&chunk.name) as u16, bytes.len(), chunk));
            bytes.extend(&chunk.data);
        }
        if !is_old {
            entries.sort_by_key(|(id, _, chunk)| (chunk.frame, *id));
        }
        let mut list: Vec<u8> = Vec::new();
        for name in ids {
            list.extend(name);
            let width = if is_old { 64 - name.len() } else { 1 };
            list.extend(vec![0; width]);
        }
        // Space for one more name.
        list.resize((list.len() + 64).next_multiple_of(64), 0);
        let names = (bytes.len(), list.len());
        bytes.extend(list);
        bytes.extend(vec![7; self.dead]);
        let index = bytes.len();
        let slots = self.slots.unwrap_or((entries.len() as u64).next_power_of_two().max(128));
        for (id, location, chunk) in &entries {
            bytes.extend(chunk.frame.to_le_bytes());
            bytes.extend(chunk.shape[0].to_le_bytes());
            bytes.extend((*location as u64).to_le_bytes());
            bytes.extend((chunk.shape[1] as u32).to_le_bytes());
            bytes.extend(id.to_le_bytes());
            bytes.extend([chunk.kind, 0]);
        }
        bytes.resize(index + slots as usize * 32, 0);
        let mut header = 0x65df_65df_65df_65df_u64.to_le_bytes().to_vec();
        for number in [index as u64, slots, names.0 as u64, names.1 as u64 / 64] {
            header.extend(number.to_le_bytes());
        }
        header.extend(self.schema.1.to_le_bytes());
        header.extend(self.version.to_le_bytes());
        header.extend(b"builder");
        header.resize(112, 0);
        header.extend(&self.schema.0);
        bytes[..header.len()].copy_from_slice(&header);
        Built {
            bytes,
            index,
            names,
            entries: entries.into_iter().map(|(_, _, chunk)| chunk.clone()).collect(),
        }
    }
}

impl Built {
    /// Returns the offset of an entry.
    pub fn place(&self, slot: usize) -> usize {
        self.index + slot * 32
    }

    /// Changes a field of an entry.
    #[must_use]
    pub fn set(mut self, slot: usize, (offset, len): (usize, usize), value: u64) -> Self {
        let at = self.place(slot) + offset;
        self.bytes[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
        self
    }

    /// Changes 8 bytes of the header.
    #[must_use]
    pub fn header(mut self, offset: usize, value: u64) -> Self {
        self.bytes[offset..offset + 8].copy_from_slice(&value.to_le_bytes());
        self
    }
}
