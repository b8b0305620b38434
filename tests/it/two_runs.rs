//! Two runs on one host. The second fails and names the first. A killed run releases the host. Commands that do not
//! measure still work.

use crate::program::{Origin, finish, free_port, json, scenario, text, the_host, until};
use crate::yard::Yard;

#[test]
fn a_second_run_fails_and_names_the_first_while_other_commands_work() {
    let _host = the_host();
    let yard = Yard::new();
    let path = scenario(yard.path(), "[weir]", "");
    let path = path.to_str().unwrap();
    let mut first =
        yard.start(yard.weir(&["run", path, "--db", "weir.db", "--out", "out", "--repeats", "50"]));
    until("a finished cell", || yard.latest().is_some_and(|(_, done)| done >= 1));
    let (id, _) = yard.latest().unwrap();

    let second = ["run", path, "--db", "other.db", "--out", "other", "--repeats", "1"];
    let output = yard.run(&second);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{error}");
    let database = yard.path().join("weir.db").canonicalize().unwrap();
    let holder = format!("this host is in use by run {id} (pid {}, since 20", first.id());
    for words in
        [holder.as_str(), &format!("database {})", database.display()), " help: wait until that run ends"]
    {
        assert!(error.contains(words), "{words:?} is missing in {error}");
    }
    let runs = |database: &str| json(&finish(yard.weir(&["runs", "--db", database, "--json"])));
    assert_eq!(runs("other.db").as_array().unwrap().len(), 0, "a run that could not begin leaves no trace");

    let works = |arguments: &[&str]| {
        let output = finish(yard.weir(arguments));
        assert!(matches!(output.status.code(), Some(0 | 1 | 4)), "{arguments:?}: {}", text(&output.stderr));
    };
    works(&[&second[..], &["--plan"]].concat());
    works(&["run", "--resume", &id, "--db", "weir.db", "--plan"]);
    works(&["report", &id, "--db", "weir.db", "--out", "again"]);
    works(&["export", &id, "--db", "weir.db", "--out", "run.weir"]);
    works(&["doctor", "--quick", "--db", "weir.db"]);
    let origin = Origin::start(yard.path(), free_port(), &[]);
    works(&["load", &format!("http://{}/", origin.address), "-n", "100", "-c", "2"]);
    drop(origin);

    assert!(first.try_wait().unwrap().is_none(), "the first run has ended");
    first.kill().unwrap();
    first.wait().unwrap();
    // The second run can start at once: the kernel has released the lock, and weir first cleans up the remaining
    // processes of the first run.
    let output = yard.run(&second);
    assert!(matches!(output.status.code(), Some(0 | 1 | 4)), "{}", text(&output.stderr));
    assert_eq!(yard.left_over(), Vec::<String>::new());
    assert_eq!(runs("other.db")[0]["state"], "finished");
    assert_eq!(runs("weir.db")[0]["state"], "unfinished");
}
