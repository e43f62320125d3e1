//! What a tool must be able to do, and what it is handed.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use governance::Permit;
use ledger::Intent;
use serde_json::Value;
use tool::{Arguments, Failure, Output, Progress};

/// Leave to run: a permit whose decision is already in the ledger.
///
/// Each layer of the type is made by one stage only, so whoever holds an `Order` holds a call that was checked,
/// judged, opened and recorded, with its own files inside.
pub type Order = Intent<Permit>;

/// A tool at work.
pub type Running = Pin<Box<dyn Future<Output = Result<Output, Failure>> + Send>>;

/// What a call would do, for the person who is asked about it. What is in it is shown, and binds the answer: if any of
/// it is another when the call runs, the answer does not hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preview {
    /// Files whose content it would change.
    pub changes: Vec<Change>,
    /// Anything else that its arguments and paths do not say: the program behind a name, what a script holds.
    pub facts: Vec<(String, String)>,
    /// Its arguments as the tool would get them, where something of the tool's own rewrites them. Whoever runs the call
    /// by an answer to this is handed these: [`Permit::foretold`].
    pub rewritten: Option<Arguments>,
    /// Who does the work.
    pub at_work: AtWork,
}

/// Who does the work of a call, for the bounds a person is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AtWork {
    /// As the definition says: the daemon itself, or a program in a sandbox.
    #[default]
    AsDefined,
    /// The daemon asks hosts; what comes back is taken apart in a sandbox that has no network and no folder.
    Gatekeeper,
    /// A server elsewhere; the daemon asks it, and reads what comes back itself, as JSON.
    Far,
}

/// For whom something is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose<'a> {
    /// For whomever it is.
    Everybodys,
    /// For the worker of this session.
    Session(&'a str),
}

/// One file whose content a call would change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its canonical name.
    pub path: std::path::PathBuf,
    /// What it holds; `None` where nothing is there.
    pub before: Option<Vec<u8>>,
    /// What it would hold; `None` where it would be gone.
    pub after: Option<Vec<u8>>,
}

/// The body of a tool.
pub trait ToolExecutor: Send + Sync + 'static {
    /// What a call would do beyond what its arguments and paths say. It changes nothing, and may block. A call that
    /// cannot be foretold is not one a person can be asked about.
    fn preview(&self, _permit: &Permit) -> Result<Preview, Failure> {
        Ok(Preview::default())
    }

    /// What somebody else says of the tool behind it, as it was accepted or first heard. A reload that comes with
    /// another waits for a human.
    fn pinned(&self) -> Option<Value> {
        None
    }

    /// What stands behind it, for the person who accepts a tool that is new: a program and its words, an address. Of what
    /// is a part of Sinew there is nothing to say.
    fn stands_for(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Lets go of what it keeps for the next call, such as a process that waits for one: nobody may use it any more. What
    /// runs is not ended by this, and is not kept afterwards.
    fn let_go(&self, _whose: Whose<'_>) {}

    /// Does the work. The order is shared because a thread stuck in a system call outlives its deadline, and must
    /// keep its handles while it does.
    fn run(&self, order: Arc<Order>) -> Running;

    /// Whether its work is to make calls in the name of its caller. Such a tool is ended when its time is up, and makes
    /// none for a caller who has left.
    fn makes_calls(&self) -> bool {
        false
    }

    /// The same for a tool that has something to say meanwhile. Most have not.
    fn run_telling(&self, order: Arc<Order>, _progress: Progress) -> Running {
        self.run(order)
    }
}
