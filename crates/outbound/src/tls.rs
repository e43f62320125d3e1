//! Trusted root certificates: the Mozilla list, which is built into the binary, and those of one file named
//! in the settings. No environment variable, argument or policy adds another one or disables the checks.

use std::path::Path;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use crate::error::OutboundError;

/// Trusted root certificates.
#[derive(Clone, Debug)]
pub struct TrustedRoots(RootCertStore);

impl TrustedRoots {
    /// Returns the Mozilla list.
    pub fn mozilla() -> Self {
        TrustedRoots(RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() })
    }

    /// Returns the Mozilla list together with the certificates of a PEM file.
    pub fn with_file(file: &Path) -> Result<Self, OutboundError> {
        let TrustedRoots(mut store) = TrustedRoots::mozilla();
        let unusable =
            |cause: String| OutboundError::InvalidRoots { file: file.display().to_string(), cause };
        let before = store.len();
        let found = CertificateDer::pem_file_iter(file).map_err(|error| unusable(error.to_string()))?;
        for certificate in found {
            let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
            store.add(certificate).map_err(|error| unusable(error.to_string()))?;
        }
        match store.len() > before {
            true => Ok(TrustedRoots(store)),
            false => Err(unusable("it contains no certificate".to_owned())),
        }
    }

    /// Returns the TLS client configuration.
    pub(crate) fn client_config(self) -> Result<ClientConfig, rustls::Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let mut configuration = builder.with_root_certificates(self.0).with_no_client_auth();
        configuration.alpn_protocols = vec![b"http/1.1".to_vec()];
        // A session ticket would identify this machine to a server, as a cookie does.
        configuration.resumption = Resumption::disabled();
        Ok(configuration)
    }
}
