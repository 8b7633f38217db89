//! As whom PostgreSQL runs: it refuses to be root, so when we are root it is started as `postgres` or `nobody`.

use anyhow::{Context, Result};
use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;

/// A user and a group by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// The user.
    pub user: u32,
    /// The group.
    pub group: u32,
}

/// Whom PostgreSQL should run as; `None` means as ourselves.
pub fn for_postgres() -> Result<Option<Account>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let accounts = std::fs::read_to_string("/etc/passwd").context("/etc/passwd cannot be read")?;
    let found = ["postgres", "nobody"].into_iter().find_map(|name| find(&accounts, name));
    found.map(Some).context("PostgreSQL refuses to run as root, and there is neither a user postgres nor nobody here")
}

/// `name:x:uid:gid:…`
fn find(accounts: &str, name: &str) -> Option<Account> {
    let line = accounts.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut fields = line.split(':').skip(2);
    Some(Account { user: fields.next()?.parse().ok()?, group: fields.next()?.parse().ok()? })
}

/// Give a folder and all in it to an account.
pub fn give(path: &Path, account: Account) -> Result<()> {
    chown(path, Some(account.user), Some(account.group))
        .with_context(|| format!("{} cannot be given to user {}", path.display(), account.user))?;
    if path.is_dir() {
        for entry in std::fs::read_dir(path)? {
            give(&entry?.path(), account)?;
        }
    }
    Ok(())
}

/// The first folder above `path` that others may not pass, if any.
pub fn blocked_by(path: &Path) -> Option<&Path> {
    path.ancestors().skip(1).find(|folder| folder.metadata().is_ok_and(|meta| meta.mode() & 0o001 == 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_an_account_by_its_whole_name() {
        let accounts = "postgres-x:x:5:6::/:\npostgres:x:101:104::/var/lib/postgresql:/bin/bash\n";
        assert_eq!(find(accounts, "postgres"), Some(Account { user: 101, group: 104 }));
        assert_eq!(find(accounts, "nobody"), None);
    }
}
