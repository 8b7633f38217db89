//! Whose data folder this is. Written once, before anything else; a folder serves one node id for ever, because its votes
//! and acknowledgements were given under that name.

use crate::disk::{Disk, replace_file};
use bytes::Bytes;
use domain::ids::NodeId;
use std::io;
use std::path::{Path, PathBuf};

/// Why a data folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The disk failed.
    #[error("the data folder cannot be used: {0}")]
    Disk(#[from] io::Error),
    /// It was begun by another node.
    #[error(
        "{} belongs to node {found}; it cannot serve node {expected}. Give each node its own data folder",
        folder.display()
    )]
    Foreign {
        /// Which folder.
        folder: PathBuf,
        /// Whose it is.
        found: NodeId,
        /// Who asked.
        expected: NodeId,
    },
    /// Its identity cannot be read.
    #[error("{} is damaged: it does not say which node the folder belongs to", file.display())]
    Damaged {
        /// Which file.
        file: PathBuf,
    },
}

/// Makes the folder this node's, or checks that it is.
pub async fn claim(disk: &dyn Disk, folder: &Path, id: NodeId) -> Result<(), IdentityError> {
    disk.create_folder(folder.to_path_buf()).await?;
    let file = folder.join("identity");
    match disk.read(file.clone()).await {
        Ok(bytes) => match parse(&bytes) {
            Some(found) if found == id => Ok(()),
            Some(found) => Err(IdentityError::Foreign { folder: folder.to_path_buf(), found, expected: id }),
            None => Err(IdentityError::Damaged { file }),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let text = format!("encore store node\nformat 1\nid {id}\n");
            replace_file(disk, &file, Bytes::from(text)).await?;
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

fn parse(bytes: &[u8]) -> Option<NodeId> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mut lines = text.lines();
    (lines.next()? == "encore store node" && lines.next()? == "format 1").then_some(())?;
    lines.next()?.strip_prefix("id ")?.parse().ok()
}
