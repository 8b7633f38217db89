//! Who is who: certificates of nodes and clients, made by one private authority (`encore admin certs`).
//!
//! A node's certificate carries its id as the name `node-N.encore.internal`, which its peers check against the node that
//! they mean to reach, on both ends; and the name of the whole store, which clients check. A client's certificate carries
//! its role as a name and is good for nothing but asking.

use domain::ids::NodeId;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, UnixTime};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tonic::transport::{Certificate, ClientTlsConfig, Identity, ServerTlsConfig};

/// The name under which every node answers clients.
pub const STORE_NAME: &str = "store.encore.internal";
/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// The name that a node's certificate carries.
pub fn node_name(node: NodeId) -> String {
    format!("node-{node}.encore.internal")
}

/// What a client may do, by its certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Everything, the operators' calls included.
    Operator,
    /// Reads, and what fans and payments do to reservations.
    Service,
    /// Reads only.
    Reader,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Operator, Self::Service, Self::Reader];

    /// As certificates and people call it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Service => "service",
            Self::Reader => "reader",
        }
    }

    /// The name that a certificate of this role carries.
    pub fn name(self) -> String {
        format!("{}.client.encore.internal", self.word())
    }
}

/// Who a certificate is made out to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A node.
    Node(NodeId),
    /// A client.
    Client(Role),
}

impl Subject {
    /// Of the names in a certificate. A certificate that is both, or several nodes', is nobody's.
    pub fn of<'a>(names: impl Iterator<Item = &'a str>) -> Option<Self> {
        let mut subjects = names.filter_map(|name| {
            let role = Role::ALL.into_iter().find(|role| role.name() == name).map(Self::Client);
            let id = || name.strip_prefix("node-")?.strip_suffix(".encore.internal")?.parse().ok().map(Self::Node);
            role.or_else(id)
        });
        let first = subjects.next()?;
        subjects.next().is_none().then_some(first)
    }
}

/// Where a process finds the authority that it trusts, its own certificate and its key, as PEM files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsFiles {
    /// The authority's certificate.
    pub ca: PathBuf,
    /// This process's certificate.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Certificates that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} cannot be used: {reason}", file.display())]
pub struct TlsError {
    /// Which file.
    pub file: PathBuf,
    /// Why.
    pub reason: String,
}

impl TlsFiles {
    /// The files that `encore admin certs` writes into one folder for one holder, such as `node-1` or `reader`.
    pub fn of(folder: &Path, holder: &str) -> Self {
        let file = |name: String| folder.join(name);
        Self { ca: file("ca.pem".into()), cert: file(format!("{holder}.pem")), key: file(format!("{holder}.key")) }
    }

    /// The own certificate is checked as others will: who refuses it may say no more than goodbye.
    fn identity(&self) -> Result<Identity, TlsError> {
        let certificate = read(&self.cert)?;
        valid(&certificate, &read(&self.ca)?).map_err(|reason| TlsError { file: self.cert.clone(), reason })?;
        Ok(Identity::from_pem(certificate, read(&self.key)?))
    }

    /// For a server: whoever comes must show a certificate of the same authority.
    pub(crate) fn server(&self) -> Result<ServerTlsConfig, TlsError> {
        let config = ServerTlsConfig::new().identity(self.identity()?).timeout(HANDSHAKE);
        Ok(config.client_ca_root(Certificate::from_pem(read(&self.ca)?)))
    }

    /// For a client: who answers must be of the same authority and have this name. The files are read anew each time, so
    /// that a renewed certificate is used from the next connection on.
    pub(crate) fn client(&self, name: &str) -> Result<ClientTlsConfig, TlsError> {
        let config = ClientTlsConfig::new().identity(self.identity()?).timeout(HANDSHAKE);
        Ok(config.ca_certificate(Certificate::from_pem(read(&self.ca)?)).domain_name(name))
    }
}

/// The serial number of a certificate, as the list of revoked ones has it.
pub(crate) fn serial_of(certificate: &CertificateDer<'_>) -> Result<String, String> {
    let parsed = webpki::EndEntityCert::try_from(certificate).map_err(|error| error.to_string())?;
    Ok(parsed.serial().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The same of a PEM file.
pub fn serial(file: &Path) -> Result<String, TlsError> {
    let failed = |reason: String| TlsError { file: file.to_path_buf(), reason };
    let certificate =
        CertificateDer::from_pem_slice(&read(file)?).map_err(|error| failed(format!("no certificate: {error}")))?;
    serial_of(&certificate).map_err(failed)
}

/// Whether this certificate (PEM) is good for a connection now, by this authority (PEM).
pub fn valid(certificate: &[u8], authority: &[u8]) -> Result<(), String> {
    let parsed = |pem: &[u8]| CertificateDer::from_pem_slice(pem).map_err(|error| format!("no certificate: {error}"));
    let (certificate, authority) = (parsed(certificate)?, parsed(authority)?);
    let anchor = webpki::anchor_from_trusted_cert(&authority).map_err(|error| error.to_string())?;
    let verified = webpki::EndEntityCert::try_from(&certificate).and_then(|certificate| {
        let (now, usage) = (UnixTime::now(), webpki::KeyUsage::client_auth());
        certificate.verify_for_usage(webpki::ALL_VERIFICATION_ALGS, &[anchor], &[], now, usage, None, None).map(drop)
    });
    verified.map_err(|error| match error {
        webpki::Error::CertExpired { .. } => {
            "it has expired: move it and its key away and have it made anew".to_owned()
        }
        webpki::Error::UnknownIssuer | webpki::Error::InvalidSignatureForPublicKey => {
            "it is not of this authority".to_owned()
        }
        other => other.to_string(),
    })
}

fn read(file: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(file).map_err(|error| TlsError { file: file.to_path_buf(), reason: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_has_exactly_one_subject() {
        let of = |names: &[&str]| Subject::of(names.iter().copied());
        assert_eq!(of(&["node-3.encore.internal", STORE_NAME]), Some(Subject::Node(NodeId(3))));
        assert_eq!(of(&["reader.client.encore.internal"]), Some(Subject::Client(Role::Reader)));
        assert_eq!(of(&["node-3.encore.internal", "node-4.encore.internal"]), None);
        assert_eq!(of(&["node-3.encore.internal", "operator.client.encore.internal"]), None);
        assert_eq!(of(&["node-x.encore.internal", "store.encore.internal"]), None);
        for role in Role::ALL {
            assert_eq!(of(&[&role.name()]), Some(Subject::Client(role)));
        }
    }
}
