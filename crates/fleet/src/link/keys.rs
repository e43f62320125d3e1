//! Keys that are made on this machine and never leave it.

use ring::rand::{SecureRandom, SystemRandom};
use tool::canonical;

use crate::{FleetError, SigningKey, SubjectToken};

/// Key of a connection (an nkey of NATS). It signs what the server chooses, so it signs nothing else.
pub struct ConnectionKey {
    seed: String,
    public: String,
}

impl ConnectionKey {
    /// Creates a key.
    pub fn generate() -> Result<ConnectionKey, FleetError> {
        let key = nkeys::KeyPair::new_from_raw(nkeys::KeyPairType::User, random_bytes()?);
        ConnectionKey::from_pair(&key.map_err(|_| FleetError::Key)?)
    }

    /// Reads a key from its seed.
    pub fn from_seed(seed: &str) -> Result<ConnectionKey, FleetError> {
        ConnectionKey::from_pair(&nkeys::KeyPair::from_seed(seed.trim()).map_err(|_| FleetError::Key)?)
    }

    fn from_pair(pair: &nkeys::KeyPair) -> Result<ConnectionKey, FleetError> {
        let seed = pair.seed().map_err(|_| FleetError::Key)?;
        Ok(ConnectionKey { seed, public: pair.public_key() })
    }

    /// Returns the seed, which is secret.
    pub fn seed(&self) -> &str {
        &self.seed
    }

    /// Returns the public key.
    pub fn public(&self) -> &str {
        &self.public
    }
}

impl SigningKey {
    /// Creates a key and returns it with its seed, which is secret.
    pub fn generate() -> Result<(SigningKey, String), FleetError> {
        let seed: [u8; 32] = random_bytes()?;
        Ok((SigningKey::from_seed(&seed)?, canonical::hex(&seed)))
    }
}

/// Returns random bytes of the operating system.
pub fn random_bytes<const N: usize>() -> Result<[u8; N], FleetError> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| FleetError::Random)?;
    Ok(bytes)
}

/// Returns a random id of 16 hexadecimal digits.
pub fn random_id() -> Result<SubjectToken, FleetError> {
    canonical::hex(&random_bytes::<8>()?).parse()
}
