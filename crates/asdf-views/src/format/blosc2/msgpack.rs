//! Values in msgpack, as JSON.
//!
//! JSON has no bytes, no numbers that are not a number, and only texts as keys. Bytes become base64 in an object
//! `{"base64": …}`, such numbers become texts, and a key becomes its own JSON. Extension types, which
//! python-blosc2 uses for Python objects, become `{"ext": TYPE, "base64": …}`: nothing is unpickled. A tuple, which
//! python-blosc2 writes as a list with a mark in front, becomes a list without it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

/// Maximum nesting of a value.
const MAX_DEPTH: usize = 32;

/// Maximum number of values within a value.
const MAX_NODES: usize = 1 << 16;

/// The mark in front of a list that is a tuple.
const TUPLE: &str = "__tuple__";

/// Returns the value that `bytes` are, or `None` if they are not exactly one value.
pub(super) fn value(bytes: &[u8]) -> Option<Value> {
    let mut reader = ValueReader { rest: bytes, nodes: 0 };
    let value = reader.value(0)?;
    reader.rest.is_empty().then_some(value)
}

/// Returns bytes that are no value.
pub(super) fn raw(bytes: &[u8]) -> Value {
    json!({ "base64": STANDARD.encode(bytes) })
}

struct ValueReader<'a> {
    rest: &'a [u8],
    nodes: usize,
}

impl<'a> ValueReader<'a> {
    fn value(&mut self, depth: usize) -> Option<Value> {
        self.nodes += 1;
        if depth > MAX_DEPTH || self.nodes > MAX_NODES {
            return None;
        }
        let [mark] = self.array()?;
        Some(match mark {
            0x00..=0x7f => mark.into(),
            0x80..=0x8f => self.map(u32::from(mark & 0x0f), depth)?,
            0x90..=0x9f => self.list(u32::from(mark & 0x0f), depth)?,
            0xa0..=0xbf => self.text(u32::from(mark & 0x1f))?,
            0xc0 => Value::Null,
            0xc1 => return None,
            0xc2 => false.into(),
            0xc3 => true.into(),
            0xc4..=0xc6 => {
                let len = self.length(mark - 0xc4)?;
                raw(self.bytes(len)?)
            }
            0xc7..=0xc9 => {
                let len = self.length(mark - 0xc7)?;
                self.extension(len)?
            }
            0xca => float(f32::from_be_bytes(self.array()?).into()),
            0xcb => float(f64::from_be_bytes(self.array()?)),
            0xcc => u8::from_be_bytes(self.array()?).into(),
            0xcd => u16::from_be_bytes(self.array()?).into(),
            0xce => u32::from_be_bytes(self.array()?).into(),
            0xcf => u64::from_be_bytes(self.array()?).into(),
            0xd0 => i8::from_be_bytes(self.array()?).into(),
            0xd1 => i16::from_be_bytes(self.array()?).into(),
            0xd2 => i32::from_be_bytes(self.array()?).into(),
            0xd3 => i64::from_be_bytes(self.array()?).into(),
            0xd4..=0xd8 => self.extension(1 << (mark - 0xd4))?,
            0xd9..=0xdb => {
                let len = self.length(mark - 0xd9)?;
                self.text(len)?
            }
            0xdc | 0xdd => {
                let len = self.length(mark - 0xdc + 1)?;
                self.list(len, depth)?
            }
            0xde | 0xdf => {
                let len = self.length(mark - 0xde + 1)?;
                self.map(len, depth)?
            }
            0xe0..=0xff => i8::from_be_bytes([mark]).into(),
        })
    }

    fn bytes(&mut self, len: u32) -> Option<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(usize::try_from(len).ok()?)?;
        self.rest = rest;
        Some(bytes)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (&array, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(array)
    }

    /// Reads a length of one, two or four bytes, by the power of two.
    fn length(&mut self, power: u8) -> Option<u32> {
        Some(match power {
            0 => u8::from_be_bytes(self.array()?).into(),
            1 => u16::from_be_bytes(self.array()?).into(),
            _ => u32::from_be_bytes(self.array()?),
        })
    }

    fn text(&mut self, len: u32) -> Option<Value> {
        let bytes = self.bytes(len)?;
        Some(match std::str::from_utf8(bytes) {
            Ok(text) => text.into(),
            Err(_) => raw(bytes),
        })
    }

    fn extension(&mut self, len: u32) -> Option<Value> {
        let [kind] = self.array()?;
        let bytes = self.bytes(len)?;
        Some(json!({ "ext": i8::from_be_bytes([kind]), "base64": STANDARD.encode(bytes) }))
    }

    fn list(&mut self, len: u32, depth: usize) -> Option<Value> {
        let mut list = Vec::new();
        for _ in 0..len {
            list.push(self.value(depth + 1)?);
        }
        if list.first().is_some_and(|first| first == TUPLE) {
            list.remove(0);
        }
        Some(list.into())
    }

    fn map(&mut self, len: u32, depth: usize) -> Option<Value> {
        let mut map = Map::new();
        for _ in 0..len {
            let key = match self.value(depth + 1)? {
                Value::String(key) => key,
                key => key.to_string(),
            };
            let value = self.value(depth + 1)?;
            map.insert(key, value);
        }
        Some(map.into())
    }
}

fn float(number: f64) -> Value {
    serde_json::Number::from_f64(number).map_or_else(|| number.to_string().into(), Value::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_become_json() {
        for (bytes, truth) in [
            (&b"\x81\xa1b\x93\x01\xcb@\x04\0\0\0\0\0\0\xa1x"[..], json!({"b": [1, 2.5, "x"]})),
            (b"\xc0", json!(null)),
            (b"\x92\xc2\xc3", json!([false, true])),
            (b"\xff", json!(-1)),
            (b"\xd1\xff\x00", json!(-256)),
            (b"\xcf\xff\xff\xff\xff\xff\xff\xff\xff", json!(u64::MAX)),
            (b"\xd9\x02ab", json!("ab")),
            (b"\xdc\0\x01\x07", json!([7])),
            (b"\xde\0\x01\x07\x08", json!({"7": 8})),
            (b"\xc4\x01\xff", json!({"base64": "/w=="})),
            (b"\xd4\x05\xff", json!({"ext": 5, "base64": "/w=="})),
            (b"\xc7\x01\xfb\xff", json!({"ext": -5, "base64": "/w=="})),
            (b"\xa1\xff", json!({"base64": "/w=="})),
            (b"\xca\x7f\xc0\0\0", json!("NaN")),
            (b"\x92\xa9__tuple__\x07", json!([7])),
        ] {
            assert_eq!(value(bytes), Some(truth), "{bytes:?}");
            assert_eq!(value(&bytes[..bytes.len() - 1]), None, "{bytes:?}");
            assert_eq!(value(&[bytes, b"\0"].concat()), None, "{bytes:?}");
        }
    }

    #[test]
    fn hostile_values_are_refused() {
        assert_eq!(value(&[0x91; 100]), None, "too deep");
        assert_eq!(value(b"\xdd\xff\xff\xff\xff\x01"), None);
        assert_eq!(value(b"\xc6\xff\xff\xff\xff\x01"), None);
        assert_eq!(value(b"\xc1"), None);
        let many = [&b"\xdd\0\x02\0\0"[..], &[0; 2 << 16]].concat();
        assert_eq!(value(&many), None, "too many");
    }
}
