//! The ledger as a whole, on real files.

mod writing;

use std::{path::Path, sync::Arc};

use crate::{Ledger, Options, Recovery};

fn open(folder: &Path) -> (Arc<Ledger>, Recovery) {
    Ledger::open(folder, &Options::default()).unwrap()
}
