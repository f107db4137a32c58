//! Rows to columns: a Python row is appended to Parquet leaves, wholly or not at all.
//!
//! Only exact builtin values are taken. For anything else the package decides, in Python: it refuses
//! the row and says why, or passes its values again as plain ones. So there are no rules and no
//! error texts here, and no Python code runs in the middle of a row.

use crate::clock;
use crate::leaf::{Bits, Leaf, Values};
use crate::py::{Int, Item, Ref};
use crate::row::Template;
use crate::schema::{Field, Type, Unit};
use crate::strings::Strings;

/// A column, or a part of one, of a batch that grows.
pub struct Column {
    nullable: bool,
    /// The definition level of what is there, and for a list of an empty one.
    def: u8,
    pub node: Node,
}

pub enum Node {
    Leaf {
        kind: Kind,
        leaf: Leaf,
    },
    /// `rep`: the repetition level of all items but the first.
    List {
        rep: u8,
        item: Box<Column>,
    },
    Map {
        rep: u8,
        key: Box<Column>,
        value: Box<Column>,
    },
    Struct {
        template: Template,
        fields: Vec<Column>,
    },
}

/// The values that a leaf takes, where its physical type does not say it.
pub enum Kind {
    Physical,
    Int { least: i32, most: i32 },
    UnsignedInt,
    UnsignedLong,
    Text { symbols: Option<Vec<Box<str>>> },
    Date,
    Timestamp { unit: Unit, has_zone: bool },
}

/// What appending a row needs and counts.
#[derive(Default)]
pub struct Appending {
    pub scratch: Vec<u8>,
    /// The bytes that the row takes besides its columns' fixed widths.
    pub nbytes: usize,
    /// Whether rows are as the package passes them: records are tuples, and maps are pairs.
    pub plain: bool,
}

/// The row does not fit, or only Python can tell.
pub struct NotTaken;

type Taken = Result<(), NotTaken>;

impl Column {
    pub fn new(field: &Field, dictionaries: &mut impl FnMut() -> bool) -> Self {
        Self::nested(field, 0, 0, true, dictionaries)
    }

    /// `def` and `rep` are the levels of what holds this.
    fn nested(
        field: &Field,
        def: u8,
        rep: u8,
        is_top: bool,
        dictionaries: &mut impl FnMut() -> bool,
    ) -> Self {
        let def = def + u8::from(field.nullable);
        let leaf = |kind, values| Node::Leaf { kind, leaf: Leaf::new(values, def, rep, is_top) };
        let node = match &field.data_type {
            Type::Bool => leaf(Kind::Physical, Values::Bool(Bits::default())),
            Type::Int { least, most } => {
                leaf(Kind::Int { least: *least, most: *most }, Values::I32(Vec::new()))
            }
            Type::Long => leaf(Kind::Physical, Values::I64(Vec::new())),
            Type::UnsignedInt => leaf(Kind::UnsignedInt, Values::I32(Vec::new())),
            Type::UnsignedLong => leaf(Kind::UnsignedLong, Values::I64(Vec::new())),
            Type::Float => leaf(Kind::Physical, Values::F32(Vec::new())),
            Type::Double => leaf(Kind::Physical, Values::F64(Vec::new())),
            Type::Text { symbols } => leaf(
                Kind::Text { symbols: symbols.clone() },
                Values::Strings(Strings::new(dictionaries())),
            ),
            Type::Binary => leaf(Kind::Physical, Values::Strings(Strings::new(dictionaries()))),
            Type::Fixed { width } => {
                leaf(Kind::Physical, Values::Fixed { width: *width, bytes: Vec::new() })
            }
            Type::Date => leaf(Kind::Date, Values::I32(Vec::new())),
            Type::Timestamp { unit, has_zone } => {
                leaf(Kind::Timestamp { unit: *unit, has_zone: *has_zone }, Values::I64(Vec::new()))
            }
            Type::List(item) => Node::List {
                rep: rep + 1,
                item: Box::new(Self::nested(item, def + 1, rep + 1, false, dictionaries)),
            },
            Type::Map(key, value) => Node::Map {
                rep: rep + 1,
                key: Box::new(Self::nested(key, def + 1, rep + 1, false, dictionaries)),
                value: Box::new(Self::nested(value, def + 1, rep + 1, false, dictionaries)),
            },
            Type::Struct(fields) => Node::Struct {
                template: Template::new(fields.iter().map(|field| &*field.name)),
                fields: fields
                    .iter()
                    .map(|field| Self::nested(field, def, rep, false, dictionaries))
                    .collect(),
            },
        };
        Self { nullable: field.nullable, def, node }
    }

    /// Append a value; `rep` is the repetition level at which it stands.
    ///
    /// When it is not taken, some leaves may have grown: see `truncate`.
    #[inline(always)]
    pub fn append(&mut self, value: Ref<'_>, rep: u8, appending: &mut Appending) -> Taken {
        if let Node::Leaf { kind, leaf } = &mut self.node {
            if append_value(kind, &mut leaf.values, value, appending) {
                leaf.present(rep);
                return Ok(());
            }
            if value.is_none() && self.nullable {
                leaf.absent(rep, self.def - 1);
                return Ok(());
            }
            return Err(NotTaken);
        }
        self.append_nested(value, rep, appending)
    }

    #[inline(never)]
    fn append_nested(&mut self, value: Ref<'_>, rep: u8, appending: &mut Appending) -> Taken {
        if value.is_none() {
            if !self.nullable {
                return Err(NotTaken);
            }
            appending.nbytes += self.append_absent(rep, self.def - 1);
            return Ok(());
        }
        let def = self.def;
        match &mut self.node {
            Node::Leaf { .. } => unreachable!("`append` appends to leaves"),
            Node::List { rep: item_rep, item } => {
                let items = value.items().ok_or(NotTaken)?;
                if items.is_empty() {
                    appending.nbytes += item.append_absent(rep, def);
                }
                let mut rep = rep;
                for &value in items {
                    item.append(value, rep, appending)?;
                    rep = *item_rep;
                }
                appending.nbytes += 16 * items.len();
            }
            Node::Map { rep: item_rep, key, value: item } => {
                let mut pairs = 0;
                let mut append = |pair: (Ref<'_>, Ref<'_>), appending: &mut Appending| {
                    let rep = if pairs == 0 { rep } else { *item_rep };
                    pairs += 1;
                    key.append(pair.0, rep, appending)?;
                    item.append(pair.1, rep, appending)
                };
                if appending.plain {
                    for pair in value.items().ok_or(NotTaken)? {
                        let Some(&[key_value, item_value]) = pair.items() else {
                            return Err(NotTaken);
                        };
                        append((key_value, item_value), appending)?;
                    }
                } else {
                    for item in value.dict().ok_or(NotTaken)?.iter() {
                        append((item.key, item.value), appending)?;
                    }
                }
                if pairs == 0 {
                    appending.nbytes += key.append_absent(rep, def) + item.append_absent(rep, def);
                }
                appending.nbytes += 24 * pairs;
            }
            Node::Struct { template, fields } => {
                if appending.plain {
                    append_tuple(fields, value, rep, appending)?;
                } else {
                    append_dict(fields, template, value, rep, appending)?;
                }
            }
        }
        Ok(())
    }

    /// Append null, so many times, to a nullable column at the top.
    pub fn append_nulls(&mut self, count: usize) {
        for _ in 0..count {
            self.append_absent(0, self.def - 1);
        }
    }

    /// How many rows a column at the top has.
    pub fn rows(&self) -> usize {
        match &self.node {
            Node::Leaf { leaf, .. } => leaf.rows,
            Node::List { item, .. } => item.rows(),
            Node::Map { key, .. } => key.rows(),
            Node::Struct { fields, .. } => fields.first().map_or(0, Self::rows),
        }
    }

    /// Append nothing to all leaves; returns the bytes that this takes.
    fn append_absent(&mut self, rep: u8, def: u8) -> usize {
        match &mut self.node {
            Node::Leaf { leaf, .. } => {
                leaf.absent(rep, def);
                2
            }
            Node::List { item, .. } => item.append_absent(rep, def),
            Node::Map { key, value, .. } => {
                key.append_absent(rep, def) + value.append_absent(rep, def)
            }
            Node::Struct { fields, .. } => {
                fields.iter_mut().map(|field| field.append_absent(rep, def)).sum()
            }
        }
    }

    /// Remove all but the first `rows` rows.
    pub fn truncate(&mut self, rows: usize) {
        self.each_leaf(&mut |leaf| leaf.truncate(rows));
    }

    /// Drop what only appending needs. The GIL has to be held.
    pub fn finish(&mut self) {
        self.each_leaf(&mut |leaf| {
            if let Values::Strings(strings) = &mut leaf.values {
                strings.finish();
            }
        });
    }

    fn each_leaf(&mut self, visit: &mut impl FnMut(&mut Leaf)) {
        match &mut self.node {
            Node::Leaf { leaf, .. } => visit(leaf),
            Node::List { item, .. } => item.each_leaf(visit),
            Node::Map { key, value, .. } => {
                key.each_leaf(visit);
                value.each_leaf(visit);
            }
            Node::Struct { fields, .. } => {
                fields.iter_mut().for_each(|field| field.each_leaf(visit));
            }
        }
    }

    /// The leaves, in Parquet's order.
    pub fn leaves<'c>(&'c self, found: &mut Vec<&'c Leaf>) {
        match &self.node {
            Node::Leaf { leaf, .. } => found.push(leaf),
            Node::List { item, .. } => item.leaves(found),
            Node::Map { key, value, .. } => {
                key.leaves(found);
                value.leaves(found);
            }
            Node::Struct { fields, .. } => fields.iter().for_each(|field| field.leaves(found)),
        }
    }
}

/// Append a dict's values to the columns of its keys.
#[inline(always)]
pub fn append_dict(
    fields: &mut [Column],
    template: &mut Template,
    row: Ref<'_>,
    rep: u8,
    appending: &mut Appending,
) -> Taken {
    let dict = row.dict().ok_or(NotTaken)?;
    if dict.len() != fields.len() {
        return Err(NotTaken); // a default may be missing
    }
    match dict.entries() {
        Some(entries) => append_items(fields, template, entries.iter().copied(), rep, appending),
        None => append_items(fields, template, dict.iter(), rep, appending),
    }
}

#[inline(always)]
fn append_items<'a>(
    fields: &mut [Column],
    template: &mut Template,
    items: impl Iterator<Item = Item<'a>> + Clone,
    rep: u8,
    appending: &mut Appending,
) -> Taken {
    if !template.check(items.clone(), &mut appending.scratch) {
        return Err(NotTaken);
    }
    for (place, item) in items.enumerate() {
        fields[template.column(place)].append(item.value, rep, appending)?;
    }
    Ok(())
}

/// Append values in the order of the columns.
pub fn append_tuple(
    fields: &mut [Column],
    row: Ref<'_>,
    rep: u8,
    appending: &mut Appending,
) -> Taken {
    let values = row.items().ok_or(NotTaken)?;
    if values.len() != fields.len() {
        return Err(NotTaken);
    }
    for (field, &value) in fields.iter_mut().zip(values) {
        field.append(value, rep, appending)?;
    }
    Ok(())
}

/// Append a value that is not null; says whether it is one that the leaf takes.
#[inline(always)]
fn append_value(
    kind: &Kind,
    values: &mut Values,
    value: Ref<'_>,
    appending: &mut Appending,
) -> bool {
    match (values, kind) {
        (Values::I64(out), Kind::Physical) => match value.int() {
            Some(Int::Fits(number)) => out.push(number),
            _ => return false,
        },
        (Values::F64(out), _) => match value.float().or_else(|| exact_float(value, 53)) {
            Some(number) => out.push(number),
            None => return false,
        },
        (Values::Strings(out), Kind::Text { symbols }) => {
            let Some(text) = value.text() else { return false };
            let taken = match symbols {
                None => out.push_text(text, &mut appending.scratch, |_| true),
                Some(symbols) => out.push_text(text, &mut appending.scratch, |utf8| {
                    symbols.binary_search_by(|symbol| symbol.as_bytes().cmp(utf8)).is_ok()
                }),
            };
            match taken {
                Some(nbytes) => appending.nbytes += nbytes,
                None => return false,
            }
        }
        (Values::I32(out), Kind::Int { least, most }) => match value.int() {
            Some(Int::Fits(number)) if (i64::from(*least)..=i64::from(*most)).contains(&number) => {
                out.push(number as i32);
            }
            _ => return false,
        },
        (Values::Bool(out), _) => match value.boolean() {
            Some(bit) => out.push(bit),
            None => return false,
        },
        (values, kind) => return append_rare(kind, values, value, appending),
    }
    true
}

#[inline(never)]
fn append_rare(
    kind: &Kind,
    values: &mut Values,
    value: Ref<'_>,
    appending: &mut Appending,
) -> bool {
    match (values, kind) {
        (Values::I32(out), Kind::UnsignedInt) => match value.int() {
            Some(Int::Fits(number)) if u32::try_from(number).is_ok() => out.push(number as i32),
            _ => return false,
        },
        (Values::I32(out), _) => match clock::days(value) {
            Some(days) => out.push(days),
            None => return false,
        },
        (Values::I64(out), Kind::UnsignedLong) => match value.unsigned() {
            Some(number) => out.push(number as i64),
            None => return false,
        },
        (Values::I64(out), Kind::Timestamp { unit, has_zone }) => {
            match clock::ticks(value, *unit, *has_zone) {
                Some(ticks) => out.push(ticks),
                None => return false,
            }
        }
        (Values::F32(out), _) => {
            let Some(number) = value.float().or_else(|| exact_float(value, 24)) else {
                return false;
            };
            if number.is_finite() && !(number as f32).is_finite() {
                return false;
            }
            out.push(number as f32);
        }
        (Values::Strings(out), _) => match value.bytes().and_then(|bytes| out.push_bytes(bytes)) {
            Some(nbytes) => appending.nbytes += nbytes,
            None => return false,
        },
        (Values::Fixed { width, bytes: out }, _) => match value.bytes() {
            Some(bytes) if bytes.len() == *width => out.extend_from_slice(bytes),
            _ => return false,
        },
        _ => unreachable!("a leaf's kind goes with its values"),
    }
    true
}

/// An int that a float of so many bits holds exactly, as Arrow has it.
#[inline(never)]
fn exact_float(value: Ref<'_>, bits: u32) -> Option<f64> {
    match value.int()? {
        Int::Fits(number) if number.unsigned_abs() <= 1 << bits => Some(number as f64),
        _ => None,
    }
}
