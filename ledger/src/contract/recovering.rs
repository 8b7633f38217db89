//! A store that was lost and is brought back.

use super::NOW;
use crate::Ledger;
use crate::recoveries::{Recovery, RecoveryOutcome};

/// Recoveries are of the whole ledger, so this is the only check that begins any.
pub(super) async fn no_incarnation_is_given_twice<L: Ledger>(ledger: &L) {
    let begins = |source: u8, above| Recovery { source: [source; 32], above, resumes: false, now: NOW };
    let resumes = |source| Recovery { resumes: true, ..begins(source, 0) };
    let told = async |recovery: Recovery| ledger.begin_recovery(&recovery).await.expect("the ledger answers");
    assert_eq!(told(resumes(1)).await, RecoveryOutcome::NothingToResume);
    assert_eq!(told(begins(1, 0)).await, RecoveryOutcome::Incarnation(1));
    // The same backup again, which knows nothing of the first recovery.
    assert_eq!(told(begins(1, 0)).await, RecoveryOutcome::Incarnation(2));
    assert_eq!(told(resumes(1)).await, RecoveryOutcome::Incarnation(2), "an interrupted one keeps its number");
    assert_eq!(told(resumes(2)).await, RecoveryOutcome::OtherSource);
    // A backup of a store that this ledger did not bring back.
    assert_eq!(told(begins(3, 9)).await, RecoveryOutcome::Incarnation(10));
    assert_eq!(told(begins(3, u16::MAX)).await, RecoveryOutcome::UsedUp);
    assert_eq!(told(begins(3, 0)).await, RecoveryOutcome::Incarnation(11));
}
