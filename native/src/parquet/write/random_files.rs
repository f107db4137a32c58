//! Random leaves are read back from their files by another implementation of Parquet.
//!
//! `COLUMNAR_KAFKA_RANDOM_FILES` is how many files are tried.

use std::ops::Range;

use bytes::Bytes;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_typed_column_reader};
use parquet::data_type::{
    BoolType, ByteArrayType, DataType, DoubleType, FixedLenByteArrayType, FloatType, Int32Type,
    Int64Type,
};
use parquet::file::reader::FileReader;
use parquet::file::serialized_reader::SerializedFileReader;

use super::column::Order;
use super::{Compression, LeafPlan, Least, Source, Writer};
use crate::parquet::field_ids::schema_element;
use crate::parquet::thrift::Struct;
use crate::values::leaf::{Bits, Leaf, Levels, Values};
use crate::values::strings::Strings;

const FILES: u64 = 100;

#[test]
fn random_leaves_are_read_back_by_another_reader() {
    let files = std::env::var("COLUMNAR_KAFKA_RANDOM_FILES");
    let files = files.map_or(FILES, |files| files.parse().expect("a number of files"));
    for seed in 0..files {
        check_file(seed);
    }
}

/// Write a random leaf, with one writer, as some files of its rows.
fn check_file(seed: u64) {
    let mut random = Random(seed);
    let shape = Shape::any(&mut random);
    let most = [1, 7, 8, 9, 100, 1_000, 5_000];
    let rows = random.one_of(&most);
    let leaf = shape.leaf(&mut random, rows);
    let compression = random.one_of(&[
        Compression::None,
        Compression::Snappy,
        Compression::Lz4Raw,
        Compression::Zstd,
    ]);
    let order = random.one_of(&[Order::Signed, Order::Unsigned, Order::Float, Order::Bytes]);
    let plan = LeafPlan { path: shape.path(), order, statistics: random.chance(2) };
    let mut writer =
        Writer::new(vec![plan], shape.schema_elements(), "test".into(), compression, Least::ALONE)
            .unwrap();
    let cut = random.below(rows as u64 + 1) as usize;
    for rows in [0..rows, 0..cut, cut..rows] {
        let file = writer.write(&[Source::Leaf(&leaf)], rows.clone(), &[]).unwrap();
        let expected = Slots::of(&leaf, rows.clone());
        let slots = shape.read(Bytes::from(file.to_vec()), rows.len());
        assert!(slots == expected, "seed {seed}, rows {rows:?}");
    }
}

/// Numbers by chance: SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// True once in so many times.
    fn chance(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len() as u64) as usize]
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Physical {
    Bool,
    I32,
    I64,
    F32,
    F64,
    Strings,
    Fixed,
}

/// How values follow each other.
#[derive(Clone, Copy)]
enum Pattern {
    Any,
    Few,
    Rising,
    Equal,
}

/// A column of values, or of lists of lists of them.
struct Shape {
    physical: Physical,
    width: usize,
    /// Whether the column, the items of its lists, and so on, may be null.
    nullable: Vec<bool>,
    pattern: Pattern,
}

impl Shape {
    fn any(random: &mut Random) -> Self {
        use Physical::{Bool, F32, F64, Fixed, I32, I64, Strings};
        let lists = random.below(3);
        Self {
            physical: random.one_of(&[Bool, I32, I64, F32, F64, Strings, Fixed]),
            width: 1 + random.below(17) as usize,
            nullable: (0..=lists).map(|_| random.chance(2)).collect(),
            pattern: random.one_of(&[Pattern::Any, Pattern::Few, Pattern::Rising, Pattern::Equal]),
        }
    }

    fn lists(&self) -> usize {
        self.nullable.len() - 1
    }

    fn path(&self) -> Vec<String> {
        let inner = (0..self.lists()).flat_map(|_| ["list", "element"]);
        std::iter::once("f").chain(inner).map(String::from).collect()
    }

    fn leaf(&self, random: &mut Random, rows: usize) -> Leaf {
        let nulls = self.nullable.iter().filter(|&&nullable| nullable).count();
        let values = match self.physical {
            Physical::Bool => Values::Bool(Bits::default()),
            Physical::I32 => Values::I32(Vec::new()),
            Physical::I64 => Values::I64(Vec::new()),
            Physical::F32 => Values::F32(Vec::new()),
            Physical::F64 => Values::F64(Vec::new()),
            Physical::Strings => Values::Strings(Strings::new(random.chance(2))),
            Physical::Fixed => Values::Fixed { width: self.width, bytes: Vec::new() },
        };
        let max_def = (nulls + self.lists()) as u8;
        let mut leaf = Leaf::new(values, max_def, self.lists() as u8, self.lists() == 0);
        let gaps = random.one_of(&[2, 3, 50, 1 << 40]);
        for _ in 0..rows {
            self.add(random, &mut leaf, gaps, 0, 0, 0);
        }
        leaf
    }

    /// Add what stands at a depth of lists, where one thing in `gaps` is null or empty.
    fn add(&self, random: &mut Random, leaf: &mut Leaf, gaps: u64, depth: u8, def: u8, rep: u8) {
        let nullable = self.nullable[usize::from(depth)];
        if nullable && random.chance(gaps) {
            leaf.absent(rep, def);
            return;
        }
        let def = def + u8::from(nullable);
        if usize::from(depth) == self.lists() {
            self.add_value(random, &mut leaf.values);
            leaf.present(rep);
        } else if random.chance(gaps) {
            leaf.absent(rep, def);
        } else {
            for item in 0..=random.below(4) {
                let rep = if item == 0 { rep } else { depth + 1 };
                self.add(random, leaf, gaps, depth + 1, def + 1, rep);
            }
        }
    }

    fn add_value(&self, random: &mut Random, values: &mut Values) {
        let number = match self.pattern {
            Pattern::Any => random.next() >> random.below(64),
            Pattern::Few => random.below(5).wrapping_mul(0x1234_5678_9ABC_DEF1),
            Pattern::Rising => 1_000_000 + 3 * values.len() as u64 + random.below(3),
            Pattern::Equal => 42,
        };
        match values {
            Values::Bool(bits) => bits.push(number & 1 == 1),
            Values::I32(values) => values.push(number as i32),
            Values::I64(values) => values.push(number as i64),
            Values::F32(values) => values.push(f32::from_bits(number as u32)),
            Values::F64(values) => values.push(f64::from_bits(number)),
            Values::Strings(strings) => {
                let text = number.to_string().repeat(1 + (number % 4) as usize);
                let text = if number.is_multiple_of(17) { "" } else { &text };
                strings.push_bytes(text.as_bytes()).expect("there is room");
            }
            Values::Fixed { width, bytes } => {
                let all = number.to_be_bytes().repeat(3);
                bytes.extend_from_slice(&all[..*width]);
            }
        }
    }

    /// The elements of the schema, a list in Thrift with its head.
    fn schema_elements(&self) -> Vec<u8> {
        const REPEATED: i32 = 2;
        let optional = |depth: usize| i32::from(self.nullable[depth]);
        // Name, repetition, and whether it is the leaf.
        let mut elements = vec![("schema", None, false)];
        for depth in 0..=self.lists() {
            if depth > 0 {
                elements.push(("list", Some(REPEATED), false));
            }
            let name = if depth == 0 { "f" } else { "element" };
            elements.push((name, Some(optional(depth)), depth == self.lists()));
        }
        let mut encoded = Vec::new();
        Struct::append(&mut encoded, |list| {
            list.structs(1, &elements, |fields, &(name, repetition, is_leaf)| {
                if is_leaf {
                    fields.i32(schema_element::TYPE, self.physical_type());
                    if self.physical == Physical::Fixed {
                        fields.i32(schema_element::TYPE_LENGTH, self.width as i32);
                    }
                }
                if let Some(repetition) = repetition {
                    fields.i32(schema_element::REPETITION_TYPE, repetition);
                }
                fields.binary(schema_element::NAME, name.as_bytes());
                if !is_leaf {
                    fields.i32(schema_element::NUM_CHILDREN, 1);
                }
            });
        });
        encoded[1..encoded.len() - 1].to_vec() // without the field's head, and the end
    }

    fn physical_type(&self) -> i32 {
        match self.physical {
            Physical::Bool => 0,
            Physical::I32 => 1,
            Physical::I64 => 2,
            Physical::F32 => 4,
            Physical::F64 => 5,
            Physical::Strings => 6,
            Physical::Fixed => 7,
        }
    }

    fn read(&self, file: Bytes, rows: usize) -> Slots {
        let file = SerializedFileReader::new(file).unwrap();
        let group = file.get_row_group(0).unwrap();
        let reader = group.get_column_reader(0).unwrap();
        match self.physical {
            Physical::Bool => self.slots::<BoolType>(reader, rows, |value| vec![u8::from(*value)]),
            Physical::I32 => self.slots::<Int32Type>(reader, rows, |v| v.to_le_bytes().to_vec()),
            Physical::I64 => self.slots::<Int64Type>(reader, rows, |v| v.to_le_bytes().to_vec()),
            Physical::F32 => self.slots::<FloatType>(reader, rows, |v| v.to_le_bytes().to_vec()),
            Physical::F64 => self.slots::<DoubleType>(reader, rows, |v| v.to_le_bytes().to_vec()),
            Physical::Strings => {
                self.slots::<ByteArrayType>(reader, rows, |value| value.data().to_vec())
            }
            Physical::Fixed => {
                self.slots::<FixedLenByteArrayType>(reader, rows, |value| value.data().to_vec())
            }
        }
    }

    fn slots<T: DataType>(
        &self,
        reader: ColumnReader,
        rows: usize,
        bytes: impl Fn(&T::T) -> Vec<u8>,
    ) -> Slots {
        let mut reader: ColumnReaderImpl<T> = get_typed_column_reader(reader);
        let (mut values, mut def, mut rep) = (Vec::new(), Vec::new(), Vec::new());
        let mut read = 0;
        while read < rows {
            let left = rows - read;
            let (records, ..) = reader
                .read_records(left, Some(&mut def), Some(&mut rep), &mut values)
                .expect("the file can be read");
            assert!(records > 0, "rows are missing");
            read += records;
        }
        Slots { values: values.iter().map(bytes).collect(), def, rep }
    }
}

/// Some rows of a leaf; levels that are always 0 are left out.
#[derive(PartialEq)]
struct Slots {
    values: Vec<Vec<u8>>,
    def: Vec<i16>,
    rep: Vec<i16>,
}

impl Slots {
    fn of(leaf: &Leaf, rows: Range<usize>) -> Self {
        let (first_slot, first_value) = leaf.position(rows.start);
        let (end_slot, end_value) = leaf.position(rows.end);
        let slots = first_slot..end_slot;
        let levels = |levels: &[u8]| levels[slots.clone()].iter().map(|&l| l.into()).collect();
        let (def, rep) = match &leaf.levels {
            Levels::Required => (Vec::new(), Vec::new()),
            Levels::Flat { nulls } => {
                let is_null = |row: usize| nulls.contains(&(row as u32));
                (rows.map(|row| i16::from(!is_null(row))).collect(), Vec::new())
            }
            Levels::Nested { def, rep } => {
                (levels(def), rep.as_deref().map_or_else(Vec::new, levels))
            }
        };
        let value = |i: usize| match &leaf.values {
            Values::Bool(bits) => vec![u8::from(bits.get(i))],
            Values::I32(values) => values[i].to_le_bytes().to_vec(),
            Values::I64(values) => values[i].to_le_bytes().to_vec(),
            Values::F32(values) => values[i].to_le_bytes().to_vec(),
            Values::F64(values) => values[i].to_le_bytes().to_vec(),
            Values::Strings(strings) => strings.get(i).to_vec(),
            Values::Fixed { width, bytes } => bytes[width * i..][..*width].to_vec(),
        };
        Self { values: (first_value..end_value).map(value).collect(), def, rep }
    }
}
