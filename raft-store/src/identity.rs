//! Whose data folder this is. Written once, before anything else; a folder serves one node id for ever, because its votes
//! and acknowledgements were given under that name.

use crate::disk::{Disk, Replacement};
use crate::runtime::new_life;
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

/// Whose folder it is, and which life the node leads in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Which node.
    pub id: NodeId,
    /// Minted when the folder was begun: a folder that was lost and begun again is another life, and keeps none of the
    /// promises of the first.
    pub life: u128,
}

/// Makes the folder this node's, or checks that it is.
pub async fn claim(disk: &dyn Disk, folder: &Path, id: NodeId) -> Result<Identity, IdentityError> {
    disk.create_folder(folder.to_path_buf()).await?;
    let file = folder.join("identity");
    match disk.read(file.clone()).await {
        Ok(bytes) => match parse(&bytes) {
            Some((found, _)) if found != id => {
                Err(IdentityError::Foreign { folder: folder.to_path_buf(), found, expected: id })
            }
            Some((_, Some(life))) => Ok(Identity { id, life }),
            // Begun before lives were written down.
            Some((_, None)) => begin(disk, &file, id).await,
            None => Err(IdentityError::Damaged { file }),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => begin(disk, &file, id).await,
        Err(error) => Err(error.into()),
    }
}

async fn begin(disk: &dyn Disk, file: &Path, id: NodeId) -> Result<Identity, IdentityError> {
    let life = new_life()?;
    let text = format!("encore store node\nformat 2\nid {id}\nlife {life:032x}\n");
    let mut replacement = Replacement::begin(disk, file).await?;
    replacement.write(text.as_bytes()).await?;
    replacement.finish().await?;
    Ok(Identity { id, life })
}

fn parse(bytes: &[u8]) -> Option<(NodeId, Option<u128>)> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mut lines = text.lines();
    let format = (lines.next()? == "encore store node").then(|| lines.next())??;
    let id = lines.next()?.strip_prefix("id ")?.parse().ok()?;
    match format {
        "format 1" => Some((id, None)),
        "format 2" => Some((id, Some(u128::from_str_radix(lines.next()?.strip_prefix("life ")?, 16).ok()?))),
        _ => None,
    }
}
