//! CPU and memory limits without root: weir restarts itself in a scope of the user's systemd.

/// Restarts this program in a systemd scope if its limits need one. If this fails, prints why and continues. Reports
/// mark parts that ran without limits.
pub(crate) fn enter_scope() {
    if let Err(why) = weir_rig::start_again_in_scope() {
        super::output::note(format_args!(
            "cannot restart in a systemd scope, so some parts may run without limits: {why}; `weir doctor` shows what is \
             missing"
        ));
    }
}
