//! Whole files: what the writer writes is read, and nothing that is damaged.

use super::*;
use crate::parquet::field_ids::schema_element;
use crate::parquet::thrift::Struct;
use crate::parquet::{Compression, LeafPlan, Least, Order, Source, Writer};
use crate::values::leaf::{Bits, Levels, Values};
use crate::values::schema::{Field, Type};
use crate::values::strings::Strings;

const WRITER: &str = "parquet-cpp-arrow version 26.0.1";
const ROWS: usize = 300;

fn field(name: &str, nullable: bool, data_type: Type) -> Field {
    Field { name: name.into(), nullable, data_type, branch: None }
}

/// Name, physical type, repetition and number of children.
type Element = (&'static str, Option<i32>, i32, i32);

fn encoded(elements: &[Element]) -> Vec<u8> {
    let mut out = Vec::new();
    Struct::append(&mut out, |fields| {
        fields.structs(1, elements, |element, (name, physical_type, repetition, children)| {
            if let Some(physical_type) = physical_type {
                element.i32(schema_element::TYPE, *physical_type);
            }
            element.i32(schema_element::REPETITION_TYPE, *repetition);
            element.binary(schema_element::NAME, name.as_bytes());
            if *children > 0 {
                element.i32(schema_element::NUM_CHILDREN, *children);
            }
        });
    });
    out[1..out.len() - 1].to_vec() // the list alone
}

/// A number that may be null, a text, a boolean, and a map of numbers to texts that may be null.
struct Example {
    fields: Vec<Field>,
    elements: Vec<u8>,
    leaves: Vec<Leaf>,
}

fn text(values: impl Iterator<Item = String>, indices: Option<Vec<u32>>) -> Values {
    let (mut heap, mut ends) = (Vec::new(), Vec::new());
    for value in values {
        heap.extend_from_slice(value.as_bytes());
        ends.push(heap.len() as u32);
    }
    Values::Strings(Strings::from_parts(heap, ends, indices))
}

fn leaf(values: Values, levels: Levels, max_def: u8, max_rep: u8) -> Leaf {
    Leaf { values, levels, max_def, max_rep, rows: ROWS }
}

impl Example {
    fn new() -> Self {
        let nulls: Vec<u32> = (0..ROWS as u32).filter(|row| row % 7 == 3).collect();
        let numbers = (0..(ROWS - nulls.len()) as i64).map(|n| n * n - 50).collect();
        let names = text((0..5).map(|n| format!("näme {n}")), {
            Some((0..ROWS as u32).map(|row| row % 5).collect())
        });
        let mut bits = Bits::default();
        (0..ROWS).for_each(|row| bits.push(row % 3 == 0));
        // Row after row: no map, an empty one, two entries of which the second has no value.
        let (mut def, mut rep, mut value_def) = (vec![], vec![], vec![]);
        for row in 0..ROWS / 3 {
            def.extend([0, 1, 2, 2]);
            value_def.extend([0, 1, 3, if row % 2 == 0 { 2 } else { 3 }]);
            rep.extend([0, 0, 0, 1]);
        }
        let keys = (0..ROWS as i32 / 3).flat_map(|row| [row, -1 - row]).collect();
        let items = value_def.iter().filter(|&&level| level == 3).count();
        let nested = |def| Levels::Nested { def, rep: Some(rep.clone()) };
        Self {
            fields: vec![
                field("n", true, Type::Long),
                field("s", false, Type::Text { symbols: None }),
                field("b", false, Type::Bool),
                field(
                    "m",
                    true,
                    Type::Map(
                        Box::new(field(
                            "key",
                            false,
                            Type::Int { least: i32::MIN, most: i32::MAX },
                        )),
                        Box::new(field("value", true, Type::Text { symbols: None })),
                    ),
                ),
            ],
            elements: encoded(&[
                ("schema", None, 0, 4),
                ("n", Some(2), 1, 0),
                ("s", Some(6), 0, 0),
                ("b", Some(0), 0, 0),
                ("m", None, 1, 1),
                ("key_value", None, 2, 2),
                ("key", Some(1), 0, 0),
                ("value", Some(6), 1, 0),
            ]),
            leaves: vec![
                leaf(Values::I64(numbers), Levels::Flat { nulls }, 1, 0),
                leaf(names, Levels::Required, 0, 0),
                leaf(Values::Bool(bits), Levels::Required, 0, 0),
                leaf(Values::I32(keys), nested(def), 2, 1),
                leaf(text((0..items).map(|n| format!("{n:03}")), None), nested(value_def), 3, 1),
            ],
        }
    }

    fn file(&self, compression: Compression) -> Vec<u8> {
        let plan = |order| LeafPlan { path: vec!["any".into()], order, statistics: true };
        let orders = [Order::Signed, Order::Bytes, Order::Unsigned, Order::Signed, Order::Bytes];
        let plans = orders.map(plan).into();
        let mut writer =
            Writer::new(plans, self.elements.clone(), WRITER.into(), compression, Least::ALONE)
                .unwrap();
        let sources: Vec<_> = self.leaves.iter().map(Source::Leaf).collect();
        let pairs: [(&[u8], &[u8]); 2] = [(b"columnar.rows", b"300"), (b"owner", b"ops")];
        writer.write(&sources, 0..ROWS, &pairs).unwrap().to_vec()
    }

    fn read(&self, file: &[u8], nbytes: u64) -> Read<Vec<Leaf>> {
        let footer = Footer::read(file, 1 << 20)?;
        let schema = Schema::new(footer.elements(), self.fields.clone())?;
        let leaves = read_leaves(file, &footer, &schema, 1 << 20, Budget::new(nbytes));
        let checked = check_leaves(file, &footer, &schema, 1 << 20, Budget::new(nbytes));
        assert_eq!(checked.is_ok(), leaves.is_ok());
        leaves
    }
}

/// What a leaf holds, comparable.
fn shown(leaf: &Leaf) -> String {
    let levels = match &leaf.levels {
        Levels::Required => "required".into(),
        Levels::Flat { nulls } => format!("{nulls:?}"),
        Levels::Nested { def, rep } => format!("{def:?} {rep:?}"),
    };
    let values = match &leaf.values {
        Values::Bool(bits) => format!("{:?}", bits.bytes()),
        Values::I32(values) => format!("{values:?}"),
        Values::I64(values) => format!("{values:?}"),
        Values::F32(values) => format!("{values:?}"),
        Values::F64(values) => format!("{values:?}"),
        Values::Strings(strings) => {
            let all = (0..strings.len()).map(|value| String::from_utf8_lossy(strings.get(value)));
            format!("{:?}", all.collect::<Vec<_>>())
        }
        Values::Fixed { bytes, .. } => format!("{bytes:?}"),
    };
    format!("{levels} {values}")
}

fn all(leaves: &[Leaf]) -> Vec<String> {
    leaves.iter().map(shown).collect()
}

#[test]
fn what_is_written_is_read() {
    let example = Example::new();
    for compression in
        [Compression::None, Compression::Snappy, Compression::Lz4Raw, Compression::Zstd]
    {
        let file = example.file(compression);
        let leaves = example.read(&file, 1 << 20).unwrap();
        assert_eq!(all(&leaves), all(&example.leaves));
    }
}

#[test]
fn the_footer_tells_the_files_own_metadata_from_the_schemas() {
    let example = Example::new();
    let footer = Footer::read(&example.file(Compression::None), 1 << 20).unwrap();
    assert_eq!(footer.metadata, [(b"columnar.rows".to_vec(), b"300".to_vec())]);
    assert_eq!(footer.elements(), example.elements);
    assert!(footer.key.ends_with(b"\x05\0\0\0owner\x03\0\0\0ops"));
    assert_eq!(footer.rows, ROWS as u64);
}

#[test]
fn limits_are_kept() {
    let example = Example::new();
    let file = example.file(Compression::Zstd);
    assert!(Footer::read(&file, 100).is_err());
    assert!(example.read(&file, 10_000).is_err());
    let footer = Footer::read(&file, 1 << 20).unwrap();
    let schema = Schema::new(footer.elements(), example.fields.clone()).unwrap();
    assert!(read_leaves(&file, &footer, &schema, 399, Budget::new(1 << 20)).is_err());
    assert!(read_leaves(&file, &footer, &schema, 400, Budget::new(1 << 20)).is_ok());
}

#[test]
fn columns_that_are_not_the_files_are_given_up() {
    let example = Example::new();
    let is_read = |fields: Vec<Field>| Schema::new(&example.elements, fields).is_ok();
    assert!(is_read(example.fields.clone()));
    let mut fields = example.fields.clone();
    fields[0].nullable = false;
    assert!(!is_read(fields));
    let mut fields = example.fields.clone();
    fields[0].data_type = Type::Double;
    assert!(!is_read(fields));
    let mut fields = example.fields.clone();
    fields[2].name = "c".into();
    assert!(!is_read(fields));
    assert!(!is_read(example.fields[..3].to_vec()));
}

#[test]
fn damage_is_given_up_or_makes_no_difference() {
    let example = Example::new();
    for compression in [Compression::None, Compression::Zstd] {
        let file = example.file(compression);
        for end in 0..file.len() {
            assert!(example.read(&file[..end], 1 << 20).is_err());
        }
        for bit in (0..8 * file.len()).step_by(7) {
            let mut damaged = file.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            if let Ok(leaves) = example.read(&damaged, 1 << 20) {
                assert_eq!(all(&leaves), all(&example.leaves), "{bit}");
            }
        }
    }
}

#[test]
fn leaves_that_disagree_are_given_up() {
    let change = |change: fn(&mut Vec<u8>, &mut Vec<u8>)| {
        let mut example = Example::new();
        let Levels::Nested { def, rep: Some(rep) } = &mut example.leaves[4].levels else {
            unreachable!()
        };
        change(def, rep);
        example.read(&example.file(Compression::None), 1 << 20).is_err()
    };
    assert!(!change(|_, _| ()));
    // A map that is null for the keys is empty for the values.
    assert!(change(|def, _| def[0] = 1));
    // An entry of the values begins a row, and one that begins a row does not.
    assert!(change(|_, rep| rep.swap(3, 4)));
    // The first row goes on with one before it.
    assert!(change(|_, rep| {
        rep[0] = 1;
        rep[3] = 0;
    }));
}

#[test]
fn a_map_with_a_key_twice_is_given_up() {
    let mut example = Example::new();
    let Values::I32(keys) = &mut example.leaves[3].values else { unreachable!() };
    keys[11] = keys[10];
    assert!(example.read(&example.file(Compression::None), 1 << 20).is_err());
}
