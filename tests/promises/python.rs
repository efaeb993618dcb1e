//! Python asdf opens what was saved by each plan, also after saves that were cut off.

use std::fs;
use std::path::Path;

use crate::common::mount::fresh_folder;
use crate::common::python::{old_python, python, run};
use crate::killed::{WAYS, kill};
use crate::place::write;

#[test]
fn files_of_each_plan_are_opened_by_todays_asdf_and_an_older_one() {
    let folder = fresh_folder();
    let mut files = 0;
    for way in WAYS {
        let place = way.place();
        let blocks = |name: &str| {
            let at = folder.path().join(format!("{name}.blocks"));
            fs::create_dir(&at).unwrap();
            for (n, block) in place.built.blocks.iter().enumerate() {
                fs::write(at.join(format!("{n}.bin")), &block.data).unwrap();
            }
        };
        let mut text = place.text();
        for n in 0..6 {
            let mount = place.mount();
            text = way.next(&place, &text, n);
            if n % 2 == 0 {
                write(&mount, &text).unwrap();
            } else {
                std::thread::scope(|scope| {
                    let writing = scope.spawn(|| write(&mount, &text));
                    std::thread::sleep(std::time::Duration::from_millis(n as u64));
                    kill(&mount);
                    let _ = writing.join().unwrap();
                });
                drop(mount);
                drop(place.mount());
                text = place.saved();
            }
            place.holds(&text);
            let name = format!("{}-{n}", way.name);
            fs::copy(&place.source, folder.path().join(format!("{name}.asdf"))).unwrap();
            blocks(&name);
            files += 1;
        }
    }
    for python in [python(), old_python()] {
        let compared = run(&python, "check_built.py", [folder.path(), Path::new("saved")]);
        assert_eq!(compared.trim(), (3 * files).to_string());
    }
}
