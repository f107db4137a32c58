//! Rows to columns: a Python row is appended to Parquet leaves, wholly or not at all.
//!
//! Only exact builtin values are taken, and objects that `layout` can read. For anything else the
//! package decides, in Python: it refuses the row and says why, or passes its values again as plain
//! ones. So there are no rules and no error texts here, and no Python code runs in the middle of a
//! row.

use crate::produce::from_rows::{Template, append_record, append_tuple};
use crate::produce::from_values::{Kind, append_value};
use crate::python::py::Ref;
use crate::values::leaf::{Bits, Leaf, Values};
use crate::values::schema::{Field, Type, Unit};
use crate::values::size::{LeafSize, Size};
use crate::values::strings::Strings;

/// Appends the values of a column, or of a part of one, to the leaves of any batch.
pub struct Column {
    pub nullable: bool,
    /// The definition level of what is there, and for a list of an empty one.
    pub def: u8,
    /// What null in it says: of rows, null.
    says: NullSays,
    /// Whether the row that is being appended has decided that.
    is_fresh: bool,
    pub node: Node,
}

/// What null in a column says of a field of JSON objects; the first one decides.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum NullSays {
    Null,
    Absent,
    Nothing,
}

pub enum Node {
    /// `leaf`: its place among the leaves.
    Leaf {
        kind: Kind,
        leaf: usize,
    },
    /// `rep`: the repetition level of all items but the first.
    List {
        rep: u8,
        item: Box<Column>,
        item_size: Size,
        /// The length of every list, where that is fixed.
        size: Option<usize>,
    },
    Map(Box<Map>),
    Struct(Box<Struct>),
}

pub struct Map {
    /// The repetition level of all pairs but the first.
    pub rep: u8,
    pub key: Column,
    pub value: Column,
    pub pair_size: Size,
}

pub struct Struct {
    pub template: Template,
    pub fields: Vec<Column>,
}

/// What appending a row needs and counts.
#[derive(Default)]
pub struct Appending {
    pub scratch: Vec<u8>,
    /// For text that is put together.
    pub text: Vec<u8>,
    /// What the row takes.
    pub size: Size,
    /// Whether rows are as the package passes them: records are tuples, and maps are pairs.
    pub plain: bool,
    /// Whether the row has decided what null says in a column.
    pub decides: bool,
}

/// The row does not fit, or only Python can tell.
pub struct NotTaken;

pub type Taken = Result<(), NotTaken>;

impl Column {
    /// Append leaves without rows to `leaves`, which may have others. `sizes` are those of all.
    pub fn new(field: &Field, leaves: &mut Vec<Leaf>, sizes: &[LeafSize]) -> Self {
        Self::nested(field, 0, 0, true, leaves, sizes)
    }

    /// `def` and `rep` are the levels of what holds this.
    fn nested(
        field: &Field,
        def: u8,
        rep: u8,
        is_top: bool,
        leaves: &mut Vec<Leaf>,
        sizes: &[LeafSize],
    ) -> Self {
        let def = def + u8::from(field.nullable);
        let first = leaves.len();
        let inside = |field: &Field, leaves: &mut Vec<Leaf>| {
            Self::nested(field, def + 1, rep + 1, false, leaves, sizes)
        };
        // An item has its values, and two levels in each leaf.
        let size_of = |width: usize, leaves: &[Leaf]| Size {
            nbytes: width + 2 * (leaves.len() - first),
            decoded: sizes[first..leaves.len()].iter().map(|size| size.per_slot).sum(),
        };
        let node = match &field.data_type {
            Type::List(item) | Type::FixedList(item, _) => Node::List {
                rep: rep + 1,
                item: Box::new(inside(item, leaves)),
                item_size: size_of(item.width(), leaves),
                size: match field.data_type {
                    Type::FixedList(_, size) => Some(size),
                    _ => None,
                },
            },
            Type::Map(key, value) => Node::Map(Box::new(Map {
                rep: rep + 1,
                key: inside(key, leaves),
                value: inside(value, leaves),
                pair_size: size_of(key.width() + value.width(), leaves),
            })),
            Type::Struct(fields) => Node::Struct(Box::new(Struct {
                template: Template::new(fields),
                fields: fields
                    .iter()
                    .map(|field| Self::nested(field, def, rep, false, leaves, sizes))
                    .collect(),
            })),
            leaf => {
                let (kind, values) = leaf_parts(leaf);
                leaves.push(Leaf::new(values, def, rep, is_top));
                Node::Leaf { kind, leaf: leaves.len() - 1 }
            }
        };
        Self { nullable: field.nullable, def, says: NullSays::Null, is_fresh: false, node }
    }

    /// Whether null says this; if it has said nothing, a row decides it, once it is taken.
    #[inline(always)]
    pub fn says(&mut self, this: NullSays, decides: &mut bool) -> bool {
        if self.says == NullSays::Nothing {
            self.says = this;
            self.is_fresh = true;
            *decides = true;
        }
        self.says == this
    }

    /// Keep what a row has decided, or forget it.
    pub fn settle(&mut self, is_taken: bool) {
        if std::mem::take(&mut self.is_fresh) && !is_taken {
            self.says = NullSays::Nothing;
        }
    }

    /// What null has said.
    pub fn has_said(&self) -> NullSays {
        self.says
    }

    /// Have null say nothing yet.
    pub fn ask(&mut self) {
        self.says = NullSays::Nothing;
    }

    /// Append a value; `rep` is the repetition level at which it stands.
    ///
    /// When it is not taken, some leaves may have grown: see `Leaf::truncate`.
    #[inline(always)]
    pub fn append(
        &mut self,
        value: Ref<'_>,
        rep: u8,
        leaves: &mut [Leaf],
        appending: &mut Appending,
    ) -> Taken {
        if let Node::Leaf { kind, leaf } = &self.node {
            let leaf = &mut leaves[*leaf];
            if append_value(kind, &mut leaf.values, value, appending) {
                leaf.present(rep);
                return Ok(());
            }
            return if value.is_none() {
                self.append_none(rep, leaves, appending)
            } else {
                Err(NotTaken)
            };
        }
        self.append_nested(value, rep, leaves, appending)
    }

    #[inline(never)]
    fn append_nested(
        &mut self,
        value: Ref<'_>,
        rep: u8,
        leaves: &mut [Leaf],
        appending: &mut Appending,
    ) -> Taken {
        if value.is_none() {
            return self.append_none(rep, leaves, appending);
        }
        let def = self.def;
        match &mut self.node {
            Node::Leaf { .. } => unreachable!("`append` appends to leaves"),
            Node::List { rep: item_rep, item, item_size, size } => {
                let items = value.items().ok_or(NotTaken)?;
                if size.is_some_and(|size| size != items.len()) {
                    return Err(NotTaken);
                }
                if items.is_empty() {
                    appending.size.nbytes += item.append_absent(rep, def, leaves);
                }
                let mut rep = rep;
                for &value in items {
                    item.append(value, rep, leaves, appending)?;
                    rep = *item_rep;
                }
                appending.size += *item_size * items.len();
            }
            Node::Map(map) => map.append(value, rep, def, leaves, appending)?,
            Node::Struct(inner) => {
                let Struct { template, fields } = &mut **inner;
                if appending.plain {
                    append_tuple(fields, value, rep, leaves, appending)?;
                } else {
                    append_record(fields, template, value, rep, leaves, appending)?;
                }
            }
        }
        Ok(())
    }

    /// Append the null of a row. What the package has appended says elsewhere what it is.
    #[inline(always)]
    fn append_none(&mut self, rep: u8, leaves: &mut [Leaf], appending: &mut Appending) -> Taken {
        if !(appending.plain || self.says(NullSays::Null, &mut appending.decides)) {
            return Err(NotTaken);
        }
        appending.size.nbytes += self.append_null(rep, leaves)?;
        Ok(())
    }

    /// Append null; returns the bytes that this takes in the leaves of something nested.
    #[inline(always)]
    pub fn append_null(&self, rep: u8, leaves: &mut [Leaf]) -> Result<usize, NotTaken> {
        if !self.nullable {
            return Err(NotTaken);
        }
        if let Node::Leaf { leaf, .. } = &self.node {
            leaves[*leaf].absent(rep, self.def - 1);
            return Ok(0);
        }
        Ok(self.append_absent(rep, self.def - 1, leaves))
    }

    /// Append nothing to all leaves; returns the bytes that this takes.
    pub fn append_absent(&self, rep: u8, def: u8, leaves: &mut [Leaf]) -> usize {
        match &self.node {
            Node::Leaf { leaf, .. } => {
                leaves[*leaf].absent(rep, def);
                2
            }
            Node::List { item, .. } => item.append_absent(rep, def, leaves),
            Node::Map(map) => map.append_absent(rep, def, leaves),
            Node::Struct(inner) => {
                inner.fields.iter().map(|field| field.append_absent(rep, def, leaves)).sum()
            }
        }
    }
}

/// Call `look` with each field that may be null, of objects at any depth, in their order.
pub fn each_nullable(fields: &mut [Column], look: &mut impl FnMut(&mut Column)) {
    for field in fields {
        if field.nullable {
            look(field);
        }
        each_inside(field, look);
    }
}

fn each_inside(column: &mut Column, look: &mut impl FnMut(&mut Column)) {
    match &mut column.node {
        Node::Leaf { .. } => {}
        Node::List { item, .. } => each_inside(item, look),
        Node::Map(map) => each_inside(&mut map.value, look),
        Node::Struct(inner) => each_nullable(&mut inner.fields, look),
    }
}

impl Map {
    #[inline]
    fn append(
        &mut self,
        value: Ref<'_>,
        rep: u8,
        def: u8,
        leaves: &mut [Leaf],
        appending: &mut Appending,
    ) -> Taken {
        let mut pairs = 0;
        let mut append = |pair: (Ref<'_>, Ref<'_>), appending: &mut Appending| {
            let rep = if pairs == 0 { rep } else { self.rep };
            pairs += 1;
            self.key.append(pair.0, rep, leaves, appending)?;
            self.value.append(pair.1, rep, leaves, appending)
        };
        if appending.plain {
            for pair in value.items().ok_or(NotTaken)? {
                let Some(&[key, value]) = pair.items() else {
                    return Err(NotTaken);
                };
                append((key, value), appending)?;
            }
        } else {
            for item in value.dict().ok_or(NotTaken)?.iter() {
                append((item.key, item.value), appending)?;
            }
        }
        if pairs == 0 {
            appending.size.nbytes += self.append_absent(rep, def, leaves);
        }
        appending.size += self.pair_size * pairs;
        Ok(())
    }

    /// Append nothing to all leaves; returns the bytes that this takes.
    pub fn append_absent(&self, rep: u8, def: u8, leaves: &mut [Leaf]) -> usize {
        self.key.append_absent(rep, def, leaves) + self.value.append_absent(rep, def, leaves)
    }
}

/// What a leaf of this type takes, and where it keeps that.
fn leaf_parts(data_type: &Type) -> (Kind, Values) {
    match data_type {
        Type::Bool => (Kind::Physical, Values::Bool(Bits::default())),
        Type::Int { least, most } => {
            (Kind::Int { least: *least, most: *most }, Values::I32(Vec::new()))
        }
        Type::Long => (Kind::Physical, Values::I64(Vec::new())),
        Type::UnsignedInt => (Kind::UnsignedInt, Values::I32(Vec::new())),
        Type::UnsignedLong => (Kind::UnsignedLong, Values::I64(Vec::new())),
        Type::Float => (Kind::Physical, Values::F32(Vec::new())),
        Type::Double => (Kind::Physical, Values::F64(Vec::new())),
        Type::Text { symbols } => {
            (symbols.clone().map_or(Kind::Text, Kind::Symbol), Values::Strings(Strings::new(true)))
        }
        Type::Binary => (Kind::Physical, Values::Strings(Strings::new(true))),
        Type::Fixed { width } => {
            (Kind::Physical, Values::Fixed { width: *width, bytes: Vec::new() })
        }
        Type::Date => (Kind::Date, Values::I32(Vec::new())),
        Type::Timestamp { unit, has_zone } => {
            (Kind::Timestamp { unit: *unit, has_zone: *has_zone }, Values::I64(Vec::new()))
        }
        Type::ZonedTimestamp { unit, .. } => {
            (Kind::Timestamp { unit: *unit, has_zone: true }, Values::I64(Vec::new()))
        }
        Type::Time { unit } => {
            let is_short = *unit == Unit::Milli;
            let values = if is_short { Values::I32(Vec::new()) } else { Values::I64(Vec::new()) };
            (Kind::Time { unit: *unit }, values)
        }
        Type::Duration { unit } => (Kind::Duration { unit: *unit }, Values::I64(Vec::new())),
        Type::Decimal(decimals) => (
            Kind::Decimal(Box::new(decimals.clone())),
            Values::Fixed { width: decimals.width, bytes: Vec::new() },
        ),
        Type::Half => (Kind::Half, Values::Fixed { width: 2, bytes: Vec::new() }),
        Type::List(_) | Type::FixedList(..) | Type::Map(..) | Type::Struct(_) => {
            unreachable!("it has leaves, and is none")
        }
    }
}
