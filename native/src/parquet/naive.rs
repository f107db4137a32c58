//! A slow reader of the encodings, written from the specification, for the tests of the fast writer.

fn varint(data: &[u8], at: &mut usize) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = data[*at];
        *at += 1;
        value |= u64::from(byte & 127) << shift;
        if byte < 128 {
            break;
        }
    }
    value
}

fn zigzag(data: &[u8], at: &mut usize) -> i64 {
    let value = varint(data, at);
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

fn bits(data: &[u8], index: usize, width: usize) -> u64 {
    let bit = |place: usize| u64::from(data[place / 8] >> (place % 8) & 1);
    (0..width).map(|k| bit(index * width + k) << k).sum()
}

/// Read `count` values from the hybrid of runs and packed groups, which must end with them.
pub fn unhybrid(data: &[u8], width: usize, count: usize) -> Vec<u32> {
    let (mut values, mut at) = (Vec::new(), 0);
    while at < data.len() {
        let head = varint(data, &mut at) as usize;
        if head & 1 == 1 {
            let nbytes = (head >> 1) * width;
            let packed = &data[at..at + nbytes];
            values.extend((0..(head >> 1) * 8).map(|i| bits(packed, i, width) as u32));
            at += nbytes;
        } else {
            let nbytes = width.div_ceil(8);
            let mut value = [0; 4];
            value[..nbytes].copy_from_slice(&data[at..at + nbytes]);
            values.extend(std::iter::repeat_n(u32::from_le_bytes(value), head >> 1));
            at += nbytes;
        }
    }
    assert!(values.len() >= count && values.len() < count + 8);
    values.truncate(count);
    values
}

/// Read DELTA_BINARY_PACKED; return the integers, and where they end.
pub fn undelta(data: &[u8], is_32_bits: bool) -> (Vec<i64>, usize) {
    let mut at = 0;
    let block = varint(data, &mut at) as usize;
    let miniblocks = varint(data, &mut at) as usize;
    let count = varint(data, &mut at) as usize;
    let mut value = zigzag(data, &mut at);
    let mut values = if count == 0 { vec![] } else { vec![value] };
    while values.len() < count {
        let least = zigzag(data, &mut at);
        let widths = &data[at..at + miniblocks];
        at += miniblocks;
        for &width in widths {
            if values.len() == count {
                break;
            }
            let (width, number) = (usize::from(width), block / miniblocks);
            assert!(!is_32_bits || width <= 32);
            for i in 0..number.min(count - values.len()) {
                let delta = least.wrapping_add(bits(&data[at..], i, width) as i64);
                value = value.wrapping_add(delta);
                value = if is_32_bits { i64::from(value as i32) } else { value };
                values.push(value);
            }
            at += number / 8 * width;
        }
    }
    (values, at)
}

pub fn undelta_lengths(data: &[u8]) -> Vec<Vec<u8>> {
    let (lengths, mut at) = undelta(data, true);
    let mut values = Vec::new();
    for length in lengths {
        values.push(data[at..at + length as usize].to_vec());
        at += length as usize;
    }
    assert_eq!(at, data.len());
    values
}

pub fn undelta_bytes(data: &[u8]) -> Vec<Vec<u8>> {
    let (prefixes, at) = undelta(data, true);
    let mut values: Vec<Vec<u8>> = Vec::new();
    for (prefix, suffix) in prefixes.into_iter().zip(undelta_lengths(&data[at..])) {
        let mut value = values.last().map_or(vec![], |last| last[..prefix as usize].to_vec());
        value.extend(suffix);
        values.push(value);
    }
    values
}
