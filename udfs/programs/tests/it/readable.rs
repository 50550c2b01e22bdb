//! What programs may read: what their Python needs, and nothing of a project around it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use asap_programs::{Limits, Problem, Reason, Sandbox, SandboxError, Test, Tests};

use super::CHILD;

/// A project that is a virtual environment, with a file of problems and a package. A file `.pth` adds all of it.
struct Project(tempfile::TempDir);

impl Project {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let made = Command::new("python3").args(["-m", "venv", "--without-pip"]).arg(folder.path()).status().unwrap();
        assert!(made.success());
        let project = Self(folder);
        fs::create_dir(project.at("data")).unwrap();
        fs::write(project.at("data/tests.jsonl"), "the tests").unwrap();
        fs::write(project.at(".env"), "KEY=secret").unwrap();
        fs::write(project.packages().join("own.py"), "def plus(a, b): return a + b").unwrap();
        fs::write(project.packages().join("project.pth"), project.0.path().display().to_string()).unwrap();
        project
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    fn packages(&self) -> PathBuf {
        let lib = fs::read_dir(self.at("lib")).unwrap().next().unwrap().unwrap().path();
        lib.join("site-packages")
    }

    fn sandbox(&self) -> Sandbox {
        let python = self.at("bin/python").display().to_string();
        Sandbox::new(&python, vec![CHILD.into()], Limits::default()).unwrap()
    }
}

/// A program that prints what the code finds.
fn found(sandbox: &Sandbox, code: &str) -> String {
    let tests = vec![Test { input: String::new(), output: "a line that no program prints".to_string() }];
    let problem = Problem {
        id: "own".to_string(),
        question: String::new(),
        starter: None,
        contest_date: None,
        before: String::new(),
        prompt: None,
        entry_point: None,
        reference: None,
        tests: Tests::Stdin { tests },
        seconds: 10.0,
    };
    let verdict = sandbox.judge(&problem, &format!("```python\n{code}\n```")).unwrap();
    assert_eq!(verdict.reason, Reason::WrongAnswer, "{}", verdict.detail);
    let (_, printed) = verdict.detail.split_once(", found ").unwrap();
    serde_json::from_str(printed).unwrap()
}

/// Counts the files below a folder that can be read.
fn files_below(folder: &Path) -> String {
    format!(
        "import os\nfound = []\nfor root, folders, files in os.walk({:?}):\n    for name in files:\n        try:\n            \
         open(os.path.join(root, name), 'rb').read()\n            found.append(name)\n        except OSError:\n            \
         pass\nprint(*sorted(found))",
        folder.display().to_string()
    )
}

#[test]
fn a_project_that_is_an_environment_stays_closed() {
    let project = Project::new();
    let sandbox =
        project.sandbox().hiding(&[project.at("data/tests.jsonl"), project.at("out"), project.at("")]).unwrap();
    assert_eq!(found(&sandbox, "import own\nprint(own.plus(1, 2))"), "3");
    assert_eq!(
        found(&sandbox, "import sys\nprint(sys.version_info >= (3, 9), sys.prefix != sys.base_prefix)"),
        "True True"
    );
    assert_eq!(found(&sandbox, &files_below(&project.at(""))), "");
    for path in ["data/tests.jsonl", ".env"] {
        let code = format!(
            "try:\n    print(open({:?}).read())\nexcept PermissionError:\n    print('closed')",
            project.at(path)
        );
        assert_eq!(found(&sandbox, &code), "closed", "{path}");
    }
}

#[test]
fn only_libraries_of_the_system_are_open() {
    let project = Project::new();
    let code = "import os\nfor path in ('/', '/usr', '/usr/bin', '/usr/src', '/usr/share', '/etc', '/tmp', '/home', '.'):\n    \
        try:\n        print(os.listdir(path))\n    except (PermissionError, FileNotFoundError):\n        pass\nprint('closed')";
    assert_eq!(found(&project.sandbox(), code), "closed");
    let code = "import ctypes, hashlib, json, lzma, sqlite3, ssl, zoneinfo\nprint('imported')";
    assert_eq!(found(&project.sandbox(), code), "imported");
}

#[test]
fn what_lies_in_a_folder_of_the_python_is_refused() {
    let project = Project::new();
    let inside = project.packages().join("data.jsonl");
    fs::write(&inside, "the tests").unwrap();
    let link = project.at("link.jsonl");
    std::os::unix::fs::symlink(&inside, &link).unwrap();
    for path in
        [inside.clone(), link, project.packages().join("new/out"), PathBuf::from("/usr/lib/asap-is-not-here/out")]
    {
        let error = project.sandbox().hiding(&[path]).unwrap_err();
        assert!(matches!(error, SandboxError::Exposed { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("move it out of that folder") && !text.contains('\n'), "{text}");
    }
}
