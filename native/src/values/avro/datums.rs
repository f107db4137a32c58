//! Columns to Avro datums, the same as `AvroValues` makes in the package.

use std::sync::Arc;

use super::leaves::{push_bytes, push_long, push_value};
use super::plan::Plan;
use crate::values::cursor::Cursor;
use crate::values::leaf::{Leaf, Levels, Values};
use crate::values::made::MakesValues;
use crate::values::schema::{Field, Type, is_union, is_union_of_rows};

/// How the datums of some columns are written.
pub struct Template {
    /// What stands in front of each.
    header: Vec<u8>,
    fields: Vec<ValueWriter>,
    /// Whether the columns are the branches of a union.
    is_union: bool,
    /// How many leaves the columns have.
    leaves: usize,
}

struct ValueWriter {
    /// The definition level of what is there.
    def: u8,
    /// The first leaf: its levels tell what there is.
    first: usize,
    /// The branch of null in the union, if it is one.
    null: Option<i64>,
    node: Node,
}

enum Node {
    /// The types of which the first is written that has the value, with their branches.
    Leaf(Vec<(Option<i64>, Plan)>),
    Array {
        branch: Option<i64>,
        rep: u8,
        item: Box<ValueWriter>,
    },
    Map {
        branch: Option<i64>,
        rep: u8,
        keys: usize,
        value: Box<ValueWriter>,
    },
    Record {
        branch: Option<i64>,
        fields: Vec<ValueWriter>,
    },
    /// Each has its own branch.
    Union(Vec<ValueWriter>),
}

impl Template {
    /// For these columns; None: a type is not the column's.
    pub fn new(columns: &[Field], plans: Vec<Plan>, header: Vec<u8>) -> Option<Self> {
        let mut leaves = 0;
        let is_union = is_union_of_rows(columns);
        let fields = if is_union {
            members(columns, (0..).map(Some).zip(plans), (0, 0), &mut leaves)?
        } else {
            writers(columns, plans, (0, 0), &mut leaves)?
        };
        Some(Self { header, fields, is_union, leaves })
    }
}

/// What writes the branches of a union.
fn members(
    fields: &[Field],
    branches: impl IntoIterator<Item = (Option<i64>, Plan)>,
    levels: (u8, u8),
    leaves: &mut usize,
) -> Option<Vec<ValueWriter>> {
    let pairs = fields.iter().zip(branches);
    pairs.map(|(field, branch)| writer_of(field, vec![branch], None, levels, leaves)).collect()
}

fn writers(
    fields: &[Field],
    plans: Vec<Plan>,
    levels: (u8, u8),
    leaves: &mut usize,
) -> Option<Vec<ValueWriter>> {
    let pairs = fields.iter().zip(plans);
    pairs.map(|(field, plan)| writer(field, plan, levels, leaves)).collect()
}

fn writer(field: &Field, plan: Plan, levels: (u8, u8), leaves: &mut usize) -> Option<ValueWriter> {
    let mut branches: Vec<(Option<i64>, Plan)> = match plan {
        Plan::Union(plans) => (0..).map(Some).zip(plans).collect(),
        plan => vec![(None, plan)],
    };
    let null = branches.iter().find(|(_, plan)| matches!(plan, Plan::Null)).and_then(|(at, _)| *at);
    branches.retain(|(_, plan)| !matches!(plan, Plan::Null));
    if field.nullable && null.is_none() {
        return None;
    }
    writer_of(field, branches, null, levels, leaves)
}

/// What writes a field as one of some types, which are not null, or as `null`.
fn writer_of(
    field: &Field,
    mut branches: Vec<(Option<i64>, Plan)>,
    null: Option<i64>,
    (def, rep): (u8, u8),
    leaves: &mut usize,
) -> Option<ValueWriter> {
    let def = def + u8::from(field.nullable);
    let first = *leaves;
    let node = if field.data_type.is_leaf() {
        *leaves += 1;
        Node::Leaf(branches)
    } else if let Type::Struct(fields) = &field.data_type
        && is_union(fields)
    {
        Node::Union(members(fields, branches, (def, rep), leaves)?)
    } else {
        let (branch, plan) = branches.pop()?;
        match (&field.data_type, plan) {
            (Type::List(field), Plan::Array(plan)) => {
                let item = Box::new(writer(field, *plan, (def + 1, rep + 1), leaves)?);
                Node::Array { branch, rep: rep + 1, item }
            }
            (Type::Map(key, field), Plan::Map(plan)) if key.data_type.is_leaf() => {
                let keys = *leaves;
                *leaves += 1;
                let value = Box::new(writer(field, *plan, (def + 1, rep + 1), leaves)?);
                Node::Map { branch, rep: rep + 1, keys, value }
            }
            (Type::Struct(fields), Plan::Record(plans)) => {
                Node::Record { branch, fields: writers(fields, plans, (def, rep), leaves)? }
            }
            _ => return None,
        }
    };
    Some(ValueWriter { def, first, null, node })
}

/// Writes the datums of some rows one after the other.
pub struct DatumReader {
    template: Arc<Template>,
    writer: Writer,
}

impl DatumReader {
    /// Read from row `start` on. `leaves` are those of all columns, in order; so many are taken. No
    /// datum may have more than `most` bytes.
    pub fn new(
        template: &Arc<Template>,
        leaves: &mut impl Iterator<Item = Box<Leaf>>,
        start: usize,
        most: usize,
    ) -> Self {
        let cursors = leaves.take(template.leaves).map(|leaf| Cursor::new(leaf, start)).collect();
        let writer = Writer { cursors, out: Vec::new(), most };
        Self { template: Arc::clone(template), writer }
    }
}

impl MakesValues for DatumReader {
    fn next(&mut self) -> Option<&[u8]> {
        let Self { template, writer } = self;
        writer.out.clear();
        writer.out.extend_from_slice(&template.header);
        if template.is_union {
            writer.union(&template.fields)?;
        } else {
            writer.record(&template.fields)?;
        }
        writer.check_size()?;
        Some(&writer.out)
    }
}

struct Writer {
    cursors: Vec<Cursor<Box<Leaf>>>,
    out: Vec<u8>,
    most: usize,
}

impl Writer {
    /// Few bytes of a file may become many where texts repeat in a list.
    #[inline(always)]
    fn check_size(&self) -> Option<()> {
        (self.out.len() <= self.most).then_some(())
    }

    fn record(&mut self, fields: &[ValueWriter]) -> Option<()> {
        fields.iter().try_for_each(|field| self.value(field))
    }

    /// Append the branch that is not null.
    fn union(&mut self, members: &[ValueWriter]) -> Option<()> {
        let is_here = |member: &ValueWriter| !self.cursors[member.first].is_null(member.def);
        let here = members.iter().position(is_here)?;
        for (place, member) in members.iter().enumerate() {
            match self.cursors[member.first].is_null(member.def) {
                true => self.skip(member),
                false if place == here => self.value(member)?,
                false => return None,
            }
        }
        Some(())
    }

    #[inline(always)]
    fn value(&mut self, value: &ValueWriter) -> Option<()> {
        let Node::Leaf(branches) = &value.node else { return self.nested(value) };
        let Self { cursors, out, .. } = self;
        let cursor = &mut cursors[value.first];
        let Some(at) = cursor.next() else {
            push_long(value.null?, out);
            return Some(());
        };
        let values = &cursor.leaf.values;
        let [(branch, plan)] = &branches[..] else { return push_first(branches, values, at, out) };
        push_branch(*branch, out);
        push_value(plan, values, at, out)
    }

    #[inline(never)]
    fn nested(&mut self, value: &ValueWriter) -> Option<()> {
        let def = self.cursors[value.first].def();
        if def < value.def && value.null.is_some() {
            push_long(value.null?, &mut self.out);
            self.skip(value);
            return Some(());
        }
        let is_empty = def == value.def;
        match &value.node {
            Node::Leaf(_) => unreachable!("leaves are written before"),
            Node::Union(members) => self.union(members)?,
            Node::Record { branch, fields } => {
                push_branch(*branch, &mut self.out);
                self.record(fields)?;
            }
            Node::Array { branch, .. } | Node::Map { branch, .. } if is_empty => {
                push_branch(*branch, &mut self.out);
                self.skip(value);
                self.out.push(0);
            }
            Node::Array { branch, rep, item } => {
                push_branch(*branch, &mut self.out);
                let items = self.items(item.first, *rep);
                push_long(items as i64, &mut self.out);
                for _ in 0..items {
                    self.value(item)?;
                    self.check_size()?;
                }
                self.out.push(0);
            }
            Node::Map { branch, rep, keys, value } => {
                push_branch(*branch, &mut self.out);
                let pairs = self.items(*keys, *rep);
                push_long(pairs as i64, &mut self.out);
                for _ in 0..pairs {
                    let cursor = &mut self.cursors[*keys];
                    let at = cursor.next()?;
                    let Values::Strings(names) = &cursor.leaf.values else { return None };
                    push_bytes(names.get(at), &mut self.out);
                    self.value(value)?;
                    self.check_size()?;
                }
                self.out.push(0);
            }
        }
        Some(())
    }

    /// How many items a list or map has that begins at the next slot of this leaf, and is not empty.
    fn items(&self, leaf: usize, rep: u8) -> usize {
        let cursor = &self.cursors[leaf];
        let Levels::Nested { rep: Some(levels), .. } = &cursor.leaf.levels else { return 1 };
        let others = levels[cursor.slot + 1..].iter().take_while(|&&level| level >= rep);
        1 + others.filter(|&&level| level == rep).count()
    }

    /// Pass one slot, which has no value, in all leaves.
    fn skip(&mut self, value: &ValueWriter) {
        match &value.node {
            Node::Leaf(_) => self.cursors[value.first].skip(),
            Node::Array { item, .. } => self.skip(item),
            Node::Map { keys, value, .. } => {
                self.cursors[*keys].skip();
                self.skip(value);
            }
            Node::Union(fields) | Node::Record { fields, .. } => {
                fields.iter().for_each(|field| self.skip(field))
            }
        }
    }
}

#[inline(always)]
fn push_branch(branch: Option<i64>, out: &mut Vec<u8>) {
    if let Some(branch) = branch {
        push_long(branch, out);
    }
}

/// Append a value of the first of the types that has it.
#[inline(never)]
fn push_first(
    branches: &[(Option<i64>, Plan)],
    values: &Values,
    at: usize,
    out: &mut Vec<u8>,
) -> Option<()> {
    let start = out.len();
    for (branch, plan) in branches {
        push_branch(*branch, out);
        if push_value(plan, values, at, out).is_some() {
            return Some(());
        }
        out.truncate(start);
    }
    None
}
