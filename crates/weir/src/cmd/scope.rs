//! Limits for a user who is not root: the program goes on in a scope of the user's service manager.

/// Starts this program again in such a scope where limits need one. Says what hindered it, and then goes on: what
/// cannot be limited is said again where it matters.
pub(crate) fn enter_scope() {
    if let Err(why) = weir_rig::start_again_in_scope() {
        super::output::note(format_args!("no systemd scope with its own limits: {why}"));
    }
}
