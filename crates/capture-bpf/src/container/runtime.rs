//! Name and image of a container, from the files in which its runtime keeps them.

use serde_json::Value;
use std::path::{Path, PathBuf};

/// What is known of a container.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Described {
    /// What people call it.
    pub name: Option<String>,
    /// What it was made of.
    pub image: Option<String>,
}

/// Larger files are no descriptions of a container.
const LONGEST: u64 = 16 << 20;

/// Describes the container with this whole identifier; `root` is the root of the host.
pub fn describe(root: &Path, id: &str) -> Described {
    let found = [docker(root, id), podman(root, id), annotated(root, id)];
    found.into_iter().flatten().next().unwrap_or_default()
}

fn json(path: PathBuf) -> Option<Value> {
    let is_short = std::fs::metadata(&path).ok()?.len() <= LONGEST;
    serde_json::from_str(&std::fs::read_to_string(path).ok().filter(|_| is_short)?).ok()
}

fn text(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Docker has a folder for each.
fn docker(root: &Path, id: &str) -> Option<Described> {
    let config = json(root.join("var/lib/docker/containers").join(id).join("config.v2.json"))?;
    let name = text(&config["Name"]).map(|name| name.trim_start_matches('/').to_owned());
    Some(Described { name, image: text(&config["Config"]["Image"]) })
}

/// Podman and CRI-O share a storage with a list.
fn podman(root: &Path, id: &str) -> Option<Described> {
    let folders = ["var/lib/containers/storage", "run/containers/storage"].map(|folder| root.join(folder));
    let list = folders.iter().find_map(|folder| {
        let list = json(folder.join("overlay-containers/containers.json"))?;
        list.as_array()?.iter().find(|one| one["id"].as_str() == Some(id)).cloned()
    })?;
    let metadata: Value = text(&list["metadata"]).and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    let name = text(&list["names"][0]).or_else(|| text(&metadata["name"]));
    Some(Described { name, image: text(&metadata["image-name"]) })
}

/// What Kubernetes or nerdctl asked of containerd stands in the annotations of the bundle.
fn annotated(root: &Path, id: &str) -> Option<Described> {
    let tasks = root.join("run/containerd/io.containerd.runtime.v2.task");
    let bundles = std::fs::read_dir(tasks).ok()?.flatten().map(|namespace| namespace.path().join(id));
    let config = bundles.filter_map(|bundle| json(bundle.join("config.json"))).next()?;
    let first = |names: &[&str]| names.iter().find_map(|name| text(&config["annotations"][*name]));
    Some(Described {
        name: first(&["io.kubernetes.cri.container-name", "nerdctl/name"]),
        image: first(&["io.kubernetes.cri.image-name", "nerdctl/image"]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "4f2d0c9ab1e34f2d0c9ab1e34f2d0c9ab1e34f2d0c9ab1e34f2d0c9ab1e3abcd";

    fn described(file: &str, content: &str) -> Described {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join(file.replace("ID", ID));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content.replace("ID", ID)).unwrap();
        describe(root.path(), ID)
    }

    /// The files as the runtimes write them, cut to what is looked at.
    #[test]
    fn each_runtime_has_its_files() {
        let is = |name: &str, image: &str| Described { name: Some(name.into()), image: Some(image.into()) };
        let docker = r#"{"ID":"ID","Config":{"Hostname":"4f2d","Image":"postgres:16"},"Name":"/db"}"#;
        assert_eq!(described("var/lib/docker/containers/ID/config.v2.json", docker), is("db", "postgres:16"));
        let podman = r#"[{"id":"other","names":["no"]},{"id":"ID","names":["web"],"image":"e8b1",
            "metadata":"{\"image-name\":\"docker.io/library/nginx:latest\",\"name\":\"web\"}"}]"#;
        let list = "var/lib/containers/storage/overlay-containers/containers.json";
        assert_eq!(described(list, podman), is("web", "docker.io/library/nginx:latest"));
        let bundle = r#"{"annotations":{"io.kubernetes.cri.container-name":"app",
            "io.kubernetes.cri.image-name":"registry/app:3"}}"#;
        let file = "run/containerd/io.containerd.runtime.v2.task/k8s.io/ID/config.json";
        assert_eq!(described(file, bundle), is("app", "registry/app:3"));
    }

    #[test]
    fn what_is_not_there_or_damaged_is_not_known() {
        assert_eq!(describe(Path::new("/nonexistent"), ID), Described::default());
        for damaged in ["", "{", "[]", r#"{"Name":5}"#] {
            let file = "var/lib/docker/containers/ID/config.v2.json";
            assert_eq!(described(file, damaged), Described::default(), "{damaged}");
        }
    }
}
