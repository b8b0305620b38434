//! Tests with both sides in one process, and with foreign programs on either side.

use std::io::Read as _;
use std::net::TcpStream;

use super::*;

/// A temporary folder per test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("weir-handover-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

fn passed() -> Passed {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    Passed { listener: "127.0.0.1:0#1".parse().unwrap(), socket, is_lent: true }
}

#[test]
fn hands_over_sockets_with_waiting_connections() {
    let folder = Folder::new("over");
    assert!(Predecessor::ask(&folder.0).unwrap().is_none());
    let successors = Successors::listen(&folder.0).unwrap();
    let (own, admin) = (passed(), TcpListener::bind("127.0.0.1:0").unwrap());
    let (bound, of_admin) = (own.socket.local_addr().unwrap(), admin.local_addr().unwrap());
    let waiting = TcpStream::connect(bound).unwrap();
    let running = std::thread::spawn(move || {
        let mut successor = successors.accept().unwrap();
        assert_eq!(successor.process, i32::try_from(std::process::id()).ok());
        let taken = successor.offer(&[own], Some((of_admin, &admin))).unwrap();
        successor.conclude();
        taken
    });
    let mut predecessor = Predecessor::ask(&folder.0).unwrap().unwrap();
    let passed = predecessor.sockets.remove(0);
    assert_eq!((passed.listener.to_string().as_str(), passed.is_lent), ("127.0.0.1:0#1", true));
    assert_eq!(predecessor.admin.as_ref().unwrap().0, of_admin);
    predecessor.announce_ready(&[passed.listener]).unwrap();
    assert_eq!(running.join().unwrap(), [passed.listener]);
    passed.socket.set_nonblocking(false).unwrap();
    assert_eq!(passed.socket.accept().unwrap().1, waiting.local_addr().unwrap());
    assert!(Predecessor::ask(&folder.0).unwrap().is_none(), "the old process no longer offers its sockets");
}

#[test]
fn a_successor_that_exits_early_takes_nothing() {
    let folder = Folder::new("gone");
    let successors = Successors::listen(&folder.0).unwrap();
    let asking = {
        let folder = folder.0.clone();
        std::thread::spawn(move || drop(Predecessor::ask(&folder).unwrap().unwrap()))
    };
    let lost = successors.accept().unwrap().offer(&[passed()], None);
    assert!(matches!(lost, Err(HandoverError::Lost(_))), "{lost:?}");
    asking.join().unwrap();
}

#[test]
fn rejects_foreign_protocols() {
    let folder = Folder::new("foreign");
    let successors = Successors::listen(&folder.0).unwrap();
    for (says, expected) in [
        ("GET / HTTP/1.1\n".to_owned(), "unknown message `GET / HTTP/1.1`"),
        ("x".repeat(2 * LINE_BYTES_MAX), "the other process sent a message that is too long"),
    ] {
        let mut stream = UnixStream::connect(folder.0.join(NAME)).unwrap();
        stream.write_all(says.as_bytes()).unwrap();
        let error = successors.accept().unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)));
    }
}

#[test]
fn rejects_a_listener_line_without_a_socket() {
    let folder = Folder::new("bare");
    let listener = UnixListener::bind(folder.0.join(NAME)).unwrap();
    let running = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"listener 127.0.0.1:0#0 own\nend\n").unwrap();
        let _ = stream.read(&mut [0; 64]);
    });
    let error = Predecessor::ask(&folder.0).unwrap_err();
    assert!(error.to_string().contains("a message arrived without its socket"), "{error}");
    running.join().unwrap();
}

#[test]
fn a_process_of_another_user_cannot_hand_over_sockets() {
    let error = check_user(geteuid().as_raw() + 1, "hand over").unwrap_err();
    assert!(error.to_string().contains("who may not hand over the sockets"), "{error}");
    // Only root can become another user.
    if !geteuid().is_root() {
        return;
    }
    let folder = Folder::new("user");
    std::fs::set_permissions(&folder.0, Permissions::from_mode(0o777)).unwrap();
    let path = folder.0.join(NAME);
    let (ready, is_ready) = std::sync::mpsc::channel();
    let stranger = std::thread::spawn(move || {
        let nobody = rustix::process::Uid::from_raw(65_534);
        // Affects only this thread.
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
        let listener = UnixListener::bind(path).unwrap();
        ready.send(()).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        said
    });
    is_ready.recv().unwrap();
    let error = Predecessor::ask(&folder.0).unwrap_err();
    let expected = "the other process runs as user 65534, who may not hand over the sockets";
    assert!(error.to_string().contains(expected), "{error}");
    assert_eq!(stranger.join().unwrap(), b"", "a process of another user gets no message");
}

#[test]
fn rejects_a_socket_with_another_address() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let bound = other.local_addr().unwrap();
    for (line, address) in [
        ("listener 127.0.0.1:1#0 own", "127.0.0.1:1"),
        ("listener 127.0.0.2:0#0 own", "127.0.0.2:0"),
        ("listener [::1]:0#0 lent", "[::1]:0"),
        ("admin 127.0.0.1:1", "127.0.0.1:1"),
    ] {
        let folder = Folder::new("address");
        let listener = UnixListener::bind(folder.0.join(NAME)).unwrap();
        let socket = other.try_clone().unwrap();
        let running = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut line_out = Line::over(stream).unwrap();
            line_out.say_with(line, &socket).unwrap();
            let _ = line_out.hear();
        });
        let error = Predecessor::ask(&folder.0).unwrap_err();
        let expected = format!("the socket for `{address}` is bound to `{bound}`");
        assert!(error.to_string().contains(&expected), "{error}");
        running.join().unwrap();
    }
}
