//! Avro datums to columns. What a writer does not write is not taken: numbers in more bytes than they
//! need, blocks with their size.

use crate::produce::columns::{Column, Map, Node, Struct};
use crate::produce::from_values::Kind;
use crate::produce::row_format::RowAppender;
use crate::values::avro::{Plan, leaves};
use crate::values::decimal::Decimals;
use crate::values::leaf::{Leaf, Values};
use crate::values::size::Size;

/// The names of a longer map are not compared with each other.
const MOST_PAIRS: usize = 64;

/// Append a record, or one of a union, to the columns of a row; None: it is not taken. `is_exact`: only if the same bytes
/// are written of the columns.
pub fn append_row(
    value: &[u8],
    plans: &[Plan],
    is_exact: bool,
    appender: &mut RowAppender,
    leaves: &mut [Leaf],
) -> Option<()> {
    let mut reader = Reader { rest: value, is_exact, size: Size::default() };
    if appender.template.is_union() {
        let branch = usize::try_from(reader.long()?).ok()?;
        reader.branch(plans.get(branch)?, branch, &mut appender.columns, 0, leaves)?;
    } else {
        reader.record(plans, &mut appender.columns, 0, leaves)?;
    }
    appender.appending.size += reader.size;
    reader.rest.is_empty().then_some(())
}

struct Reader<'v> {
    rest: &'v [u8],
    is_exact: bool,
    size: Size,
}

impl<'v> Reader<'v> {
    fn record(
        &mut self,
        plans: &[Plan],
        fields: &mut [Column],
        rep: u8,
        leaves: &mut [Leaf],
    ) -> Option<()> {
        for (plan, field) in plans.iter().zip(fields) {
            self.value(plan, field, rep, leaves)?;
        }
        Some(())
    }

    #[inline(always)]
    fn value(
        &mut self,
        plan: &Plan,
        column: &mut Column,
        rep: u8,
        leaves: &mut [Leaf],
    ) -> Option<()> {
        let mut plan = plan;
        let mut before: &[Plan] = &[];
        if let Plan::Union(branches) = plan {
            let index = usize::try_from(self.long()?).ok()?;
            plan = branches.get(index)?;
            before = &branches[..index];
        }
        if let Plan::Null = plan {
            self.size.nbytes += column.append_null(rep, leaves).ok()?;
            return Some(());
        }
        if let Node::Leaf { kind, leaf } = &column.node {
            let leaf = &mut leaves[*leaf];
            self.leaf(plan, kind, &mut leaf.values)?;
            leaf.present(rep);
            if self.is_exact && !matches!(before, [] | [Plan::Null]) {
                return is_first(before, &leaf.values);
            }
            return Some(());
        }
        self.nested(plan, before, column, rep, leaves)
    }

    /// Append a value of a union: `plan` is that of this branch.
    fn branch(
        &mut self,
        plan: &Plan,
        branch: usize,
        fields: &mut [Column],
        rep: u8,
        leaves: &mut [Leaf],
    ) -> Option<()> {
        for (place, field) in fields.iter_mut().enumerate() {
            if place == branch {
                self.value(plan, field, rep, leaves)?;
            } else {
                self.size.nbytes += field.append_null(rep, leaves).ok()?;
            }
        }
        (branch < fields.len()).then_some(())
    }

    #[inline(never)]
    fn nested(
        &mut self,
        plan: &Plan,
        before: &[Plan],
        column: &mut Column,
        rep: u8,
        leaves: &mut [Leaf],
    ) -> Option<()> {
        let def = column.def;
        match (plan, &mut column.node) {
            (Plan::Array(plan), Node::List { rep: item_rep, item, item_size, size: None }) => {
                let mut count = 0;
                let mut rep = rep;
                while let Some(items) = self.block(count)? {
                    for _ in 0..items {
                        self.value(plan, item, rep, leaves)?;
                        rep = *item_rep;
                    }
                    count += items;
                }
                if count == 0 {
                    self.size.nbytes += item.append_absent(rep, def, leaves);
                }
                self.size += *item_size * count;
                Some(())
            }
            (Plan::Map(plan), Node::Map(map)) => self.map(plan, map, rep, def, leaves),
            (plan, Node::Struct(inner)) if inner.template.is_union() => {
                let nulls = before.iter().filter(|plan| matches!(plan, Plan::Null)).count();
                self.branch(plan, before.len() - nulls, &mut inner.fields, rep, leaves)
            }
            (Plan::Record(plans), Node::Struct(inner)) => {
                let Struct { fields, .. } = &mut **inner;
                self.record(plans, fields, rep, leaves)
            }
            _ => None,
        }
    }

    fn map(
        &mut self,
        plan: &Plan,
        map: &mut Map,
        rep: u8,
        def: u8,
        leaves: &mut [Leaf],
    ) -> Option<()> {
        let Node::Leaf { kind: Kind::Text, leaf: keys } = map.key.node else { return None };
        let mut count = 0;
        while let Some(pairs) = self.block(count)? {
            for _ in 0..pairs {
                let name = self.text()?;
                let Values::Strings(strings) = &mut leaves[keys].values else { return None };
                let pushed = strings.len();
                let is_name = |value| strings.get(value) == name;
                if count == MOST_PAIRS || (pushed - count..pushed).any(is_name) {
                    return None;
                }
                self.size += strings.push_bytes(name)?;
                let rep = if count == 0 { rep } else { map.rep };
                leaves[keys].present(rep);
                self.value(plan, &mut map.value, rep, leaves)?;
                count += 1;
            }
        }
        if count == 0 {
            self.size.nbytes += map.append_absent(rep, def, leaves);
        }
        self.size += map.pair_size * count;
        Some(())
    }

    /// Append a value that is not null.
    #[inline(always)]
    fn leaf(&mut self, plan: &Plan, kind: &Kind, values: &mut Values) -> Option<()> {
        match (plan, values) {
            (Plan::Long, Values::I64(out)) if matches!(kind, Kind::Physical) => {
                out.push(self.long()?);
            }
            (Plan::Long, values) => append_number(self.long()?, kind, values)?,
            (Plan::Int, values) => {
                let number = i32::try_from(self.long()?).ok()?;
                append_number(number.into(), kind, values)?;
            }
            (Plan::Double, Values::F64(out)) => out.push(f64::from_le_bytes(self.array()?)),
            (Plan::Float, Values::F32(out)) => out.push(self.float()?),
            // Of a float and a double the double is written.
            (Plan::Float, Values::F64(out)) if !self.is_exact => out.push(self.float()?.into()),
            (Plan::Boolean, Values::Bool(out)) => match self.take(1)? {
                [bit @ 0..=1] => out.push(*bit == 1),
                _ => return None,
            },
            (Plan::Text, Values::Strings(out)) => {
                let text = self.text()?;
                self.size += out.push_bytes(text)?;
            }
            (Plan::Enum(symbols), Values::Strings(out)) => {
                let symbol = symbols.get(usize::try_from(self.long()?).ok()?)?;
                self.size += out.push_bytes(symbol)?;
            }
            (Plan::Bytes | Plan::Fixed(_), values) => {
                let bytes = match plan {
                    Plan::Fixed(width) => self.take(*width)?,
                    _ => self.bytes()?,
                };
                match (values, kind) {
                    (Values::Strings(out), _) => self.size += out.push_bytes(bytes)?,
                    (Values::Fixed { bytes: out, .. }, Kind::Decimal(decimals)) => {
                        let is_kept =
                            !matches!(plan, Plan::Bytes) || leaves::is_written_decimal(bytes);
                        (is_kept || !self.is_exact).then_some(())?;
                        append_decimal(bytes, decimals, out)?;
                    }
                    (Values::Fixed { width, bytes: out }, Kind::Physical)
                        if bytes.len() == *width =>
                    {
                        out.extend_from_slice(bytes);
                    }
                    _ => return None,
                }
            }
            _ => return None,
        }
        Some(())
    }

    /// The number of items in the next block of a list or map that has so many so far; None inside: there
    /// is no other.
    fn block(&mut self, so_far: usize) -> Option<Option<usize>> {
        let count = usize::try_from(self.long()?).ok()?;
        if self.is_exact && so_far > 0 && count > 0 {
            return None;
        }
        // Each item takes a byte at least, but records without fields.
        (count <= self.rest.len()).then_some((count > 0).then_some(count))
    }

    #[inline(always)]
    fn long(&mut self) -> Option<i64> {
        let (&first, rest) = self.rest.split_first()?;
        if first < 0x80 {
            self.rest = rest;
            return Some(i64::from(first >> 1) ^ -i64::from(first & 1));
        }
        self.long_of_bytes()
    }

    fn long_of_bytes(&mut self) -> Option<i64> {
        let mut number = 0;
        for (place, &byte) in self.rest.iter().enumerate().take(10) {
            number |= u64::from(byte & 0x7F) << (7 * place);
            if byte < 0x80 {
                let is_longest = place == 9;
                if byte == 0 || (is_longest && byte > 1) {
                    return None; // it has fewer bytes, or more bits
                }
                self.rest = &self.rest[place + 1..];
                return Some((number >> 1) as i64 ^ -((number & 1) as i64));
            }
        }
        None
    }

    #[inline(always)]
    fn take(&mut self, len: usize) -> Option<&'v [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(taken)
    }

    #[inline(always)]
    fn array<const LEN: usize>(&mut self) -> Option<[u8; LEN]> {
        let (taken, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*taken)
    }

    #[inline(always)]
    fn float(&mut self) -> Option<f32> {
        let bytes = self.array()?;
        let number = f32::from_le_bytes(bytes);
        // A signaling NaN becomes a quiet one where it is widened.
        let is_kept = !number.is_nan() || bytes[2] & 0x40 != 0;
        (is_kept || !self.is_exact).then_some(number)
    }

    #[inline(always)]
    fn bytes(&mut self) -> Option<&'v [u8]> {
        let len = usize::try_from(self.long()?).ok()?;
        self.take(len)
    }

    #[inline(always)]
    fn text(&mut self) -> Option<&'v [u8]> {
        let bytes = self.bytes()?;
        std::str::from_utf8(bytes).ok().map(str::as_bytes)
    }
}

/// Whether the last value is written as of none of these branches, which stand before its own.
#[inline(never)]
fn is_first(before: &[Plan], values: &Values) -> Option<()> {
    let last = values.len() - 1;
    let is_another = |plan| leaves::push_value(plan, values, last, &mut Vec::new()).is_some();
    (!before.iter().any(is_another)).then_some(())
}

#[inline(never)]
fn append_number(number: i64, kind: &Kind, values: &mut Values) -> Option<()> {
    match (values, kind) {
        (Values::I64(out), Kind::Physical | Kind::Timestamp { .. }) => out.push(number),
        (Values::I32(out), Kind::Int { least, most }) => {
            let is_within = (i64::from(*least)..=i64::from(*most)).contains(&number);
            out.push(is_within.then_some(number as i32)?);
        }
        (Values::I32(out), Kind::Date) => out.push(i32::try_from(number).ok()?),
        (values, Kind::Time { unit }) => {
            let is_within = (0..86_400 * unit.per_second()).contains(&number);
            match values {
                Values::I32(out) if is_within => out.push(number as i32),
                Values::I64(out) if is_within => out.push(number),
                _ => return None,
            }
        }
        _ => return None,
    }
    Some(())
}

/// Append a big-endian integer as one of the column's width.
fn append_decimal(bytes: &[u8], decimals: &Decimals, out: &mut Vec<u8>) -> Option<()> {
    let sign = if *bytes.first()? < 0x80 { 0 } else { 0xFF };
    let spare = bytes.len().saturating_sub(decimals.width);
    let kept = &bytes[spare..];
    let is_same = |&byte: &u8| byte == sign;
    if !bytes[..spare].iter().all(is_same) || (kept[0] >= 0x80) != (sign == 0xFF) {
        return None;
    }
    let start = out.len();
    out.resize(start + decimals.width - kept.len(), sign);
    out.extend_from_slice(kept);
    decimals.all_fit(&out[start..]).then_some(())
}
