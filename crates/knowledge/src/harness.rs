//! Our own script, which sets a context up before a function runs in it: compiled once in each process, and read from
//! memory for every context. Nothing else that is compiled is ever read.

use rquickjs::{Context, Ctx, Error, Module, Object, Runtime, WriteOptions};

use crate::engine::{Intrinsics, thrown};

const SOURCE: &str = include_str!("harness.js");

/// The script as the engine's own code. Only [`Harness::compile`] makes one, so what is in it is what this very engine
/// wrote a moment ago.
pub(crate) struct Harness(Vec<u8>);

impl Harness {
    /// Compiles the script, in a context that is thrown away.
    pub(crate) fn compile() -> Result<Self, String> {
        let told = |error: Error| error.to_string();
        let context = Context::custom::<Intrinsics>(&Runtime::new().map_err(told)?).map_err(told)?;
        context.with(|ctx| {
            let module = Module::declare(ctx.clone(), "harness", SOURCE).map_err(|_| thrown(&ctx))?;
            let options = WriteOptions { strip_source: true, strip_debug: true, ..WriteOptions::default() };
            module.write(options).map(Harness).map_err(told)
        })
    }

    /// Runs it, in a context that nothing has run in; what it hands out is what the engine works through.
    #[allow(
        unsafe_code,
        reason = "the engine does not check the code it reads, so that is said to be unsafe"
    )]
    pub(crate) fn set_up<'js>(&self, ctx: &Ctx<'js>) -> Result<Object<'js>, Error> {
        // SAFETY: the bytes were written by the engine of this process, from a text that is part of this program, and
        // nobody but this type can reach them.
        let module = unsafe { Module::load(ctx.clone(), &self.0) }?;
        let (module, done) = module.eval()?;
        // It awaits nothing, so it has ended: what it threw is thrown here.
        done.result::<()>().unwrap_or(Ok(()))?;
        module.get("default")
    }
}
