//! The partition of a key, as librdkafka chooses it.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Hash {
    Crc32,
    Murmur2,
    Fnv1a,
}

/// One of librdkafka's partitioners. Where it may choose freely, so may we.
#[derive(Clone, Copy)]
pub struct Partitioner {
    hash: Option<Hash>,
    hashes_null: bool,
    hashes_empty: bool,
}

impl Partitioner {
    pub fn named(name: &str) -> PyResult<Self> {
        let hash = match name.strip_suffix("_random").unwrap_or(name) {
            "random" => None,
            "consistent" => Some(Hash::Crc32),
            "murmur2" => Some(Hash::Murmur2),
            "fnv1a" => Some(Hash::Fnv1a),
            _ => return Err(PyValueError::new_err(format!("no partitioner {name:?}"))),
        };
        Ok(Self {
            hash,
            hashes_null: hash.is_some() && !name.ends_with("_random"),
            hashes_empty: name != "consistent_random",
        })
    }

    /// The partition of a key, or None where any will do.
    #[inline(always)]
    pub fn choose(self, key: Option<&[u8]>, partitions: u32) -> Option<u32> {
        let hash = self.hash?;
        let key = match key {
            None if !self.hashes_null => return None,
            Some([]) if !self.hashes_empty => return None,
            key => key.unwrap_or_default(),
        };
        Some(match hash {
            Hash::Crc32 => crc32fast::hash(key) % partitions,
            Hash::Murmur2 => (murmur2(key) & 0x7fff_ffff) % partitions,
            Hash::Fnv1a => fnv1a(key) % partitions,
        })
    }
}

fn murmur2(key: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut hash = 0x9747_b28c ^ key.len() as u32;
    let mut words = key.chunks_exact(4);
    for word in &mut words {
        let mut k = u32::from_le_bytes(word.try_into().expect("4 bytes")).wrapping_mul(M);
        k = (k ^ k >> 24).wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ k;
    }
    let rest = words.remainder();
    for (place, &byte) in rest.iter().enumerate() {
        hash ^= u32::from(byte) << (8 * place);
    }
    if !rest.is_empty() {
        hash = hash.wrapping_mul(M);
    }
    hash = (hash ^ hash >> 13).wrapping_mul(M);
    hash ^ hash >> 15
}

/// FNV-1a, with the sign of the hash taken off, as librdkafka has it.
fn fnv1a(key: &[u8]) -> u32 {
    let hash = key
        .iter()
        .fold(0x811c_9dc5_u32, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    (hash as i32).unsigned_abs()
}
