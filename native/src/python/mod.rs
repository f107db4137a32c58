//! Python's objects, read and made without a call of Python's; and what guards the boundary to it.

pub mod dict_items;
pub mod fork;
pub mod gil;
pub mod layout;
pub mod lookup;
pub mod new;
pub mod panics;
pub mod py;
pub mod text;
