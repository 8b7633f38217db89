//! The private authority of one store, and the certificates that it issues: one a node, with the node's id as its name, and
//! one a role of clients. Nothing is ever overwritten: a certificate is renewed by moving the old pair away and issuing
//! again, with the same authority, so that old and new ones are trusted side by side.

use anyhow::{Context, Error, Result, bail, ensure};
use domain::ids::NodeId;
use raft_store::tls::{Role, STORE_NAME, node_name};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use time::{Duration, OffsetDateTime};

/// How long the authority's own certificate is valid.
const AUTHORITY_DAYS: i64 = 3_650;
/// Clocks differ: valid from a little before now.
const SKEW: Duration = Duration::hours(1);

/// What [`issue`] did.
#[derive(Debug, Default)]
pub struct Issued {
    /// Files that were written.
    pub written: Vec<PathBuf>,
    /// Holders that had a certificate already.
    pub kept: Vec<String>,
}

/// Makes what is missing in `folder`: the authority, a certificate for each node, and one for each role of clients.
pub fn issue(folder: &Path, nodes: &[NodeId], days: u32) -> Result<Issued> {
    fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    let mut issued = Issued::default();
    let authority = authority(folder, &mut issued)?;
    for node in nodes {
        let names = vec![node_name(*node), STORE_NAME.to_owned()];
        let usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        certify(folder, &authority, &format!("node-{node}"), names, usages, days, &mut issued)?;
    }
    for role in Role::ALL {
        let usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        certify(folder, &authority, role.word(), vec![role.name()], usages, days, &mut issued)?;
    }
    Ok(issued)
}

/// Under which name the authority's own pair is kept.
const AUTHORITY: &str = "ca";

/// The list of revoked certificates in the folder of an authority.
pub const REVOKED: &str = "revoked";

/// Puts this holder's certificate on the list, and its pair aside, so that another one can be issued. Gives its serial number.
pub fn revoke(folder: &Path, holder: &str) -> Result<String> {
    ensure!(
        holder != AUTHORITY,
        "nobody would believe the list of an authority that is not to be trusted: make another one in an empty folder and give every process certificates of it"
    );
    let file = folder.join(format!("{holder}.pem"));
    let serial = raft_store::tls::serial(&file)?;
    let list = folder.join(REVOKED);
    let opened = OpenOptions::new().create(true).append(true).open(&list);
    let mut opened = opened.with_context(|| format!("{} cannot be written", list.display()))?;
    opened.write_all(format!("{serial} {holder}\n").as_bytes()).and_then(|()| opened.sync_all())?;
    // The list first: an interrupted command is given again.
    for ending in ["key", "pem"] {
        let (from, to) = (format!("{holder}.{ending}"), format!("{holder}.{serial}.{ending}"));
        if folder.join(&from).exists() {
            fs::rename(folder.join(&from), folder.join(to)).with_context(|| format!("{from} cannot be put aside"))?;
        }
    }
    Ok(serial)
}

/// The authority of the folder, which is made if there is none.
fn authority(folder: &Path, issued: &mut Issued) -> Result<Issuer<'static, KeyPair>> {
    let (certificate, key_file) = (folder.join("ca.pem"), folder.join("ca.key"));
    let mut params = CertificateParams::new(Vec::new())?;
    // Fixed: with its key they are all that signing needs to know of the authority.
    params.distinguished_name = named("Encore private authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let key = match (certificate.exists(), key_file.exists()) {
        (true, true) => {
            let text = fs::read_to_string(&key_file).with_context(|| format!("{}", key_file.display()))?;
            KeyPair::from_pem(&text).with_context(|| format!("{} is no private key", key_file.display()))?
        }
        (false, false) => {
            let key = KeyPair::generate()?;
            (params.not_before, params.not_after) = validity(AUTHORITY_DAYS);
            write_new(&key_file, &key.serialize_pem(), 0o600, issued)?;
            write_new(&certificate, &params.self_signed(&key)?.pem(), 0o644, issued)?;
            key
        }
        (true, false) => bail!("{} is not here: without it this authority issues nothing", key_file.display()),
        (false, true) => bail!("{} is gone, and its key is still here: put it back", certificate.display()),
    };
    Ok(Issuer::new(params, key))
}

fn certify(
    folder: &Path,
    authority: &Issuer<'_, KeyPair>,
    holder: &str,
    names: Vec<String>,
    usages: Vec<ExtendedKeyUsagePurpose>,
    days: u32,
    issued: &mut Issued,
) -> Result<()> {
    let (certificate, key_file) = (folder.join(format!("{holder}.pem")), folder.join(format!("{holder}.key")));
    match (certificate.exists(), key_file.exists()) {
        (true, true) => {
            let kept = fs::read(&certificate).with_context(|| format!("{}", certificate.display()))?;
            good(&kept, folder).with_context(|| format!("{} is here and cannot be used", certificate.display()))?;
            issued.kept.push(holder.to_owned());
            return Ok(());
        }
        (false, false) => {}
        _ => bail!("of {holder}'s certificate and key one is missing: move the other away to have both made anew"),
    }
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = named(&format!("Encore {holder}"));
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = usages;
    params.use_authority_key_identifier_extension = true;
    (params.not_before, params.not_after) = validity(days.into());
    let key = KeyPair::generate()?;
    let signed = params.signed_by(&key, authority)?.pem();
    good(signed.as_bytes(), folder)
        .context("ca.key is not the key of ca.pem: put back the pair that belongs together")?;
    write_new(&key_file, &key.serialize_pem(), 0o600, issued)?;
    write_new(&certificate, &signed, 0o644, issued)
}

/// Whether the authority of this folder has issued the certificate, and it is good now.
fn good(certificate: &[u8], folder: &Path) -> Result<()> {
    raft_store::tls::valid(certificate, &fs::read(folder.join("ca.pem"))?).map_err(Error::msg)
}

fn named(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

fn validity(days: i64) -> (OffsetDateTime, OffsetDateTime) {
    let now = OffsetDateTime::now_utc();
    (now - SKEW, now + Duration::days(days))
}

/// A file that was not there before, readable as `mode` says from its first byte on.
fn write_new(file: &Path, text: &str, mode: u32, issued: &mut Issued) -> Result<()> {
    let opened = OpenOptions::new().create_new(true).write(true).mode(mode).open(file);
    let mut opened = opened.with_context(|| format!("{} cannot be written", file.display()))?;
    opened.write_all(text.as_bytes()).and_then(|()| opened.sync_all())?;
    issued.written.push(file.to_path_buf());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn nothing_is_overwritten_and_what_was_moved_away_is_issued_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let nodes = [NodeId(1), NodeId(2)];
        let first = issue(folder.path(), &nodes, 30).expect("issued");
        assert_eq!(first.written.len(), 2 * (1 + nodes.len() + Role::ALL.len()));
        for file in first.written.iter().filter(|file| file.extension().is_some_and(|ending| ending == "key")) {
            let mode = fs::metadata(file).expect("written").permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{}", file.display());
        }
        let read = |name: &str| fs::read(folder.path().join(name)).expect("written");
        let (authority, one) = (read("ca.pem"), read("node-1.pem"));
        let again = issue(folder.path(), &nodes, 30).expect("issued");
        assert!(again.written.is_empty());
        assert_eq!(again.kept.len(), nodes.len() + Role::ALL.len());

        fs::remove_file(folder.path().join("node-1.key")).expect("it is there");
        assert!(issue(folder.path(), &nodes, 30).is_err(), "half of a pair");
        fs::remove_file(folder.path().join("node-1.pem")).expect("it is there");
        let renewed = issue(folder.path(), &nodes, 30).expect("issued");
        assert_eq!(renewed.written.len(), 2);
        assert_ne!(read("node-1.pem"), one);
        assert_eq!(read("ca.pem"), authority);

        fs::write(folder.path().join("node-2.pem"), "").expect("written");
        let damaged = issue(folder.path(), &nodes, 30).expect_err("an empty file is no certificate");
        assert!(format!("{damaged:#}").contains("node-2.pem is here and cannot be used"), "{damaged:#}");
        for ending in ["key", "pem"] {
            fs::remove_file(folder.path().join(format!("node-2.{ending}"))).expect("it is there");
        }
        let own = read("ca.key");
        fs::write(folder.path().join("ca.key"), read("node-1.key")).expect("written");
        let foreign = issue(folder.path(), &nodes, 30).expect_err("a key of somebody else");
        assert!(foreign.to_string().contains("ca.key is not the key of ca.pem"), "{foreign}");
        assert!(!folder.path().join("node-2.pem").exists(), "nothing is issued with it");
        fs::write(folder.path().join("ca.key"), own).expect("written");
        assert_eq!(issue(folder.path(), &nodes, 30).expect("issued").written.len(), 2);

        let refused = revoke(folder.path(), "ca").expect_err("an authority does not revoke itself");
        assert!(refused.to_string().contains("empty folder"), "{refused}");
        let serial = revoke(folder.path(), "node-1").expect("it has a certificate");
        assert_eq!(fs::read_to_string(folder.path().join(REVOKED)).expect("a list"), format!("{serial} node-1\n"));
        assert_eq!(issue(folder.path(), &nodes, 30).expect("issued").written.len(), 2);
        assert_ne!(raft_store::tls::serial(&folder.path().join("node-1.pem")).expect("a certificate"), serial);
        fs::remove_file(folder.path().join("ca.key")).expect("it is there");
        assert!(issue(folder.path(), &nodes, 30).is_err());
    }
}
