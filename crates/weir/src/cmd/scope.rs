//! Limits without root: the program restarts in a scope of the user's service manager.

/// Restarts this program in a scope if limits need one. If that fails, prints the reason and continues; reports also
/// mark parts without limits.
pub(crate) fn enter_scope() {
    if let Err(why) = weir_rig::start_again_in_scope() {
        super::output::note(format_args!("no systemd scope with its own limits: {why}"));
    }
}
