//! Arrays of leaves whose levels were written by hand.

use super::c_data::ArrowArray;
use super::*;
use crate::values::leaf::{Leaf, Levels, Values};
use crate::values::schema::{Field, Type};
use crate::values::strings::Strings;

fn field(nullable: bool, data_type: Type) -> Field {
    Field { name: "f".into(), nullable, data_type, branch: None }
}

fn boxed(nullable: bool, data_type: Type) -> Box<Field> {
    Box::new(field(nullable, data_type))
}

fn layout(bits: usize, children: Vec<Layout>) -> Layout {
    Layout { bits, children }
}

fn nested(values: Values, def: &[u8], rep: &[u8], max_def: u8, max_rep: u8) -> Leaf {
    let rows = rep.iter().filter(|&&level| level == 0).count();
    let levels = Levels::Nested { def: def.to_vec(), rep: Some(rep.to_vec()) };
    Leaf { values, levels, max_def, max_rep, rows }
}

/// The first buffer of an array.
fn numbers<T: Copy>(array: &Array, buffer: usize, len: usize) -> Vec<T> {
    // SAFETY: the tests ask for the type and the number of values that are there.
    unsafe { std::slice::from_raw_parts(array.buffers[buffer].address().cast(), len) }.to_vec()
}

#[test]
fn numbers_are_spread_around_nulls() {
    let nulls = vec![0, 9, 19];
    let leaf = Leaf {
        values: Values::I64((1..=17).collect()),
        levels: Levels::Flat { nulls },
        max_def: 1,
        max_rep: 0,
        rows: 20,
    };
    let column = array(&field(true, Type::Long), &layout(64, vec![]), &mut [leaf]).unwrap();
    assert_eq!((column.len, column.nulls), (20, 3));
    assert_eq!(column.validity, Some(vec![0b1111_1110, 0b1111_1101, 0b0111]));
    let expected: Vec<i64> = (0..=8).chain([0]).chain(9..=17).chain([0]).collect();
    assert_eq!(numbers::<i64>(&column, 0, 20), expected);
}

#[test]
fn texts_of_a_dictionary_are_put_one_after_the_other() {
    let long = "a text of more than sixteen bytes";
    let heap = format!("é{long}").into_bytes();
    let ends = vec![2, heap.len() as u32, heap.len() as u32];
    let strings = Strings::from_parts(heap, ends, Some(vec![1, 2, 0, 0]));
    let leaf = Leaf {
        values: Values::Strings(strings),
        levels: Levels::Flat { nulls: vec![1] },
        max_def: 1,
        max_rep: 0,
        rows: 5,
    };
    let data_type = Type::Text { symbols: None };
    let column = array(&field(true, data_type), &layout(64, vec![]), &mut [leaf]).unwrap();
    let end = long.len() as i64;
    assert_eq!(numbers::<i64>(&column, 0, 6), [0, end, end, end, end + 2, end + 4]);
    assert_eq!(numbers::<u8>(&column, 1, long.len() + 4), format!("{long}éé").into_bytes());
}

/// Row after row: no list, an empty one, one of two null lists and [[1, 2], null].
#[test]
fn a_null_list_of_one_size_has_all_of_its_elements() {
    let item = field(true, Type::FixedList(boxed(false, Type::Int { least: 0, most: 99 }), 2));
    let lists = field(true, Type::List(Box::new(item)));
    let leaf =
        nested(Values::I32(vec![1, 2]), &[0, 1, 2, 2, 4, 4, 2], &[0, 0, 0, 1, 0, 2, 1], 4, 2);
    let layout = layout(32, vec![layout(0, vec![layout(8, vec![])])]);
    let column = array(&lists, &layout, &mut [leaf]).unwrap();
    assert_eq!((column.len, &column.validity), (4, &Some(vec![0b1110])));
    assert_eq!(numbers::<i32>(&column, 0, 5), [0, 0, 0, 2, 4]);
    let pairs = &column.children[0];
    assert_eq!((pairs.len, pairs.nulls, &pairs.validity), (4, 3, &Some(vec![0b0100])));
    let items = &pairs.children[0];
    assert_eq!((items.len, &items.validity), (8, &None));
    assert_eq!(numbers::<u8>(items, 0, 8), [0, 0, 0, 0, 1, 2, 0, 0]);
}

#[test]
fn leaves_that_do_not_fit_are_given_up() {
    let leaf =
        |levels| Leaf { values: Values::I64(vec![1]), levels, max_def: 0, max_rep: 0, rows: 2 };
    let number = field(false, Type::Long);
    assert!(array(&number, &layout(64, vec![]), &mut [leaf(Levels::Required)]).is_err());
    let list = field(false, Type::List(boxed(false, Type::Long)));
    assert!(array(&list, &layout(32, vec![]), &mut [leaf(Levels::Required)]).is_err());
}

#[test]
fn what_was_handed_over_is_freed_by_whoever_has_it() {
    let owner = std::sync::Arc::new(());
    struct Counted(std::sync::Arc<()>);
    impl Memory for Counted {
        fn address(&self) -> *const c_void {
            std::sync::Arc::as_ptr(&self.0).cast()
        }
    }
    let array = |children| Array {
        len: 1,
        nulls: 0,
        validity: Some(vec![1]),
        buffers: vec![Box::new(Counted(owner.clone()))],
        children,
    };
    let whole = ArrowArray::new(array(vec![array(vec![]), array(vec![array(vec![])])]));
    assert_eq!(std::sync::Arc::strong_count(&owner), 5);
    let taken = whole.take_child(1);
    drop(whole);
    assert_eq!(std::sync::Arc::strong_count(&owner), 3);
    drop(taken);
    assert_eq!(std::sync::Arc::strong_count(&owner), 1);
}
