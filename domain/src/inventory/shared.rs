//! A part of the state behind a counted pointer: cloning the state shares its parts, and the first change of a part that is
//! still shared copies that part alone. So a snapshot is a clone, taken in no time, and encoded while entries go on being
//! applied. Its bytes are those of what it holds.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// Shared until changed. Reading through it is free; only a mutable borrow may copy.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shared<T>(Arc<T>);

impl<T> From<T> for Shared<T> {
    fn from(value: T) -> Self {
        Self(Arc::new(value))
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}

impl<T: Serialize> Serialize for Shared<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Shared<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_one_side_is_not_seen_by_the_other() {
        let mut now = Shared::from(vec![1, 2, 3]);
        let view = now.clone();
        now.push(4);
        assert_eq!((now.len(), view.len()), (4, 3));
        let before = now.as_ptr();
        now[0] = 9;
        assert_eq!(now.as_ptr(), before, "what nobody else sees is not copied again");
    }
}
