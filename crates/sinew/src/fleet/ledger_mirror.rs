//! Mirror of the ledger: sends the synced records of this host, byte for byte, to its own subject.

use std::convert::Infallible;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use fleet::link::{FleetConnection, StoredMessage};
use fleet::mirroring::{BatchHeader, LedgerHead, Mirror, MirrorStep, StoredHead};
use fleet::{FleetError, Purpose, Signed, Subjects, TrustedKeys};
use ledger::raw_records::{RawRecordReader, RawRecords};
use tool::canonical;

use super::service::FleetHost;

/// Interval of batches.
const INTERVAL: Duration = Duration::from_secs(1);
/// Longest batch before compression.
const MAX_BATCH_BYTES: usize = 256 * 1024;
/// Delay after a failure, so that a server without space is not asked every second.
const FAILURE_DELAY: Duration = Duration::from_secs(5);

/// Mirrors the ledger while the connection lasts.
pub(super) async fn follow(host: &FleetHost, connection: &FleetConnection) -> Infallible {
    let subject = Subjects::ledger(&host.membership.host);
    let stream = Subjects::ledger_stream(host.membership.host.partition());
    let reader = Arc::new(Mutex::new(RawRecordReader::new(&host.ledger_dir)));
    let mut mirror = Mirror::new(host.ledger_id.clone());
    loop {
        let step = mirror.step(host.layer.ledger_synced());
        let pause = match advance(host, connection, (&mut mirror, &reader), (&stream, &subject), step).await {
            Ok(pause) => {
                let mirrored = mirror.mirrored().map_or(0, |head| head.seq);
                host.status.change(|status| {
                    status.mirror_fault = None;
                    status.mirrored = status.mirrored.max(mirrored);
                });
                pause
            }
            Err(error) => {
                mirror.failed();
                note_fault(host, &error);
                FAILURE_DELAY
            }
        };
        tokio::time::sleep(pause).await;
    }
}

/// Performs one step and returns the time until the next.
async fn advance(
    host: &FleetHost,
    connection: &FleetConnection,
    (mirror, reader): (&mut Mirror, &Arc<Mutex<RawRecordReader>>),
    (stream, subject): (&str, &str),
    step: MirrorStep,
) -> Result<Duration, FleetError> {
    match step {
        MirrorStep::Wait => Ok(INTERVAL),
        MirrorStep::FetchHead => {
            let stored = connection.last(stream, subject).await?;
            let stored = stored.map(|message| stored_head(host, &message)).transpose()?;
            let seal = match stored.as_ref().map(|stored| stored.head.seq) {
                Some(seq) => {
                    with_reader(reader, move |reader: &mut RawRecordReader| reader.seal(seq)).await?
                }
                None => None,
            };
            mirror.fetched(stored, host.layer.ledger_synced(), |_| seal)?;
            Ok(Duration::ZERO)
        }
        MirrorStep::Send { expected, first } => {
            let up_to = host.layer.ledger_synced();
            let read = move |reader: &mut RawRecordReader| reader.read(first, up_to, MAX_BATCH_BYTES);
            let Some(records) = with_reader(reader, read).await? else { return Ok(INTERVAL) };
            let (description, payload) = describe(host, &records)?;
            mirror.sent(LedgerHead { seq: records.last, hash: records.hash });
            match connection.store(subject, (Some(&description), payload), Some(expected)).await {
                Ok(seq) => mirror.acknowledged(seq),
                // An earlier attempt arrived after all: the own head shows it.
                Err(FleetError::Conflict) => mirror.failed(),
                Err(error) => return Err(error),
            }
            let is_complete = records.last >= host.layer.ledger_synced();
            Ok(if is_complete { INTERVAL } else { Duration::ZERO })
        }
    }
}

/// Reads the signed description of the last batch. It must be of this host: the subject is its own.
fn stored_head(host: &FleetHost, message: &StoredMessage) -> Result<StoredHead, FleetError> {
    let description = message.description.as_deref().unwrap_or_default();
    let signed = Signed::parse(Purpose::Batch, description.as_bytes())?;
    let trusted = TrustedKeys::one(host.signing_key.public());
    let header: BatchHeader = signed.verify(Purpose::Batch, &trusted)?;
    Ok(StoredHead { stream_seq: message.seq, ledger: header.ledger, head: header.last })
}

/// Compresses records and signs their description.
fn describe(host: &FleetHost, records: &RawRecords) -> Result<(String, Vec<u8>), FleetError> {
    let header = BatchHeader {
        host: host.membership.host.clone(),
        ledger: host.ledger_id.clone(),
        first: records.first,
        last: LedgerHead { seq: records.last, hash: records.hash.clone() },
        previous: records.previous.clone(),
        sha256: canonical::sha256_hex(&records.bytes),
    };
    let signed = host.signing_key.sign(Purpose::Batch, &header)?;
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let compressed = encoder.write_all(&records.bytes).and_then(|()| encoder.finish());
    let payload = compressed.map_err(|error| FleetError::Mirror(error.to_string()))?;
    Ok((String::from_utf8(signed.to_bytes()).unwrap_or_default(), payload))
}

async fn with_reader<T: Send + 'static>(
    reader: &Arc<Mutex<RawRecordReader>>,
    read: impl FnOnce(&mut RawRecordReader) -> Result<T, ledger::LedgerError> + Send + 'static,
) -> Result<T, FleetError> {
    let reader = Arc::clone(reader);
    let read = move || read(&mut reader.lock().unwrap_or_else(PoisonError::into_inner));
    let failed = |cause: String| FleetError::Mirror(format!("the ledger cannot be read: {cause}"));
    let done = tokio::task::spawn_blocking(read).await.map_err(|error| failed(error.to_string()))?;
    done.map_err(|error| failed(error.to_string()))
}

fn note_fault(host: &FleetHost, error: &FleetError) {
    let reason = error.to_string();
    if host.status.get().mirror_fault.as_ref() != Some(&reason) {
        tracing::warn!(%error, "ledger_not_mirrored");
    }
    host.status.change(|status| status.mirror_fault = Some(reason));
}
