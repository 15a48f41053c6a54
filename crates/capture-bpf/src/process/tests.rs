use super::*;
use latscope_event::MISSING_I64;

fn about(number: u32, texts: [&[u8]; 3]) -> Vec<u8> {
    let [arguments, executable, directory] = texts.map(|text| text.len() as u16);
    let about = About {
        number,
        uid: 0,
        gid: 0,
        ppid: 7,
        parent: *b"parent\0\0\0\0\0\0\0\0\0\0",
        arguments_len: arguments,
        executable_len: executable,
        directory_len: directory,
        executable_named: named::FILE,
        directory_named: named::FILE,
    };
    let mut bytes = Vec::new();
    about.write(&mut bytes);
    texts.into_iter().for_each(|text| bytes.extend_from_slice(text));
    bytes
}

fn row(processes: &mut Processes, number: u32, pid: u32, batch: &mut Batch) -> Vec<Option<String>> {
    processes.push(number, pid, b"program", batch);
    batch.end_row();
    let row = batch.len() - 1;
    let fields = [Field::Exe, Field::ExePath, Field::Args, Field::Cmdline, Field::Cwd, Field::Parent, Field::User];
    fields.map(|field| batch.text(field, row).map(str::to_owned)).to_vec()
}

#[test]
fn a_description_is_found_by_its_number() {
    let mut batch = Batch::new(FieldSet::OF_PROCESS);
    let mut processes = Processes::new(FieldSet::OF_PROCESS);
    let pid = u32::MAX; // no process has it
    processes.learn(pid, &about(1, [b"./program\0-a\0b c\0", b"program/bin/", b"home/"]), &mut batch);
    processes.learn(pid, &about(2, [b"sh\0", b"sh/bin/", b""]), &mut batch);
    let text = |texts: &[&str]| texts.iter().map(|text| Some((*text).to_owned())).collect::<Vec<_>>();
    let first = text(&["./program", "/bin/program", "-a b c", "program -a b c", "/home", "parent", "root"]);
    assert_eq!(row(&mut processes, 1, pid, &mut batch), first);
    let mut second = text(&["sh", "/bin/sh", "", "program", "/", "parent", "root"]);
    second[2] = None;
    assert_eq!(row(&mut processes, 2, pid, &mut batch), second);
    assert_eq!(batch.i64s(Field::Ppid), Some(&[7, 7][..]));
    assert_eq!(processes.unknown, 0);
    assert_eq!(row(&mut processes, 3, pid, &mut batch), vec![None; 7]);
    assert_eq!(processes.unknown, 1, "gone, and counted");
    assert_eq!(batch.i64s(Field::Uid), Some(&[0, 0, MISSING_I64][..]));
}

/// What the programs could not describe is asked of `/proc`.
#[test]
fn a_process_that_lives_can_be_asked() {
    let mut batch = Batch::new(FieldSet::OF_PROCESS);
    let mut processes = Processes::new(FieldSet::OF_PROCESS);
    let texts = row(&mut processes, 0, std::process::id(), &mut batch);
    let arguments: Vec<String> = std::env::args().collect();
    assert_eq!(texts[0].as_deref(), Some(arguments[0].as_str()));
    assert_eq!(texts[1].as_deref(), std::env::current_exe().unwrap().to_str());
    assert_eq!(texts[2].clone().unwrap_or_default(), arguments[1..].join(" "));
    assert_eq!(texts[4].as_deref(), std::env::current_dir().unwrap().to_str());
}

#[test]
fn old_descriptions_go_and_those_in_use_stay() {
    let mut batch = Batch::new(FieldSet::OF_PROCESS);
    let mut processes = Processes::new(FieldSet::OF_PROCESS);
    for number in 1..=3 * KEPT as u32 {
        processes.learn(u32::MAX, &about(number, [b"program\0", b"program/", b""]), &mut batch);
        assert!(row(&mut processes, 1, u32::MAX, &mut batch)[0].is_some(), "{number}");
        batch.clear();
    }
    assert!(processes.young.len() + processes.old.len() <= 2 * KEPT + 1);
    assert_eq!(processes.unknown, 0);
}

#[test]
fn damaged_descriptions_are_no_panic() {
    let mut batch = Batch::new(FieldSet::OF_PROCESS);
    let mut processes = Processes::new(FieldSet::OF_PROCESS);
    let whole = about(1, [b"a\0b\0", b"c/", b"d/"]);
    (0..whole.len()).for_each(|len| processes.learn(u32::MAX, &whole[..len], &mut batch));
}
