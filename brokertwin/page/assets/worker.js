// A worker thread with Pyodide: it runs brokertwin.page.browser. Everything comes from this folder.

// @ts-ignore: assembled beside this file
import { loadPyodide } from "./pyodide/pyodide.mjs";

let python = null;

async function ready() {
  if (python) return python;
  postMessage({ progress: "loading Python" });
  const here = name => new URL(`./python/${name}`, import.meta.url).href;
  const pyodide = await loadPyodide({ indexURL: new URL("./pyodide/", import.meta.url).href });
  const { wheels, sources } = await (await fetch(here("index.json"))).json();
  postMessage({ progress: "loading brokertwin" });
  for (const name of wheels) await pyodide.loadPackage(here(name), { messageCallback: () => {}, checkIntegrity: false });
  pyodide.unpackArchive(await (await fetch(here(sources))).arrayBuffer(), "zip", { extractDir: "/brokertwin" });
  pyodide.runPython("import sys; sys.path.insert(0, '/brokertwin')");
  pyodide.FS.mkdirTree("/logs");
  pyodide.runPython("import gc; gc.disable()");
  python = { pyodide, browser: pyodide.pyimport("brokertwin.page.browser") };
  return python;
}

/** Run a call of the page: files for `incident`, texts for all others. */
async function run(name, given) {
  const { pyodide, browser } = await ready();
  if (name !== "incident") return browser[name](...given);
  const paths = [];
  for (const file of given) {
    const path = `/logs/${file.name.replaceAll("/", "_")}`;
    pyodide.FS.writeFile(path, new Uint8Array(await file.arrayBuffer()));
    paths.push(path);
  }
  const list = pyodide.toPy(paths);
  try {
    return browser.incident(list, words => postMessage({ progress: words }));
  } finally {
    list.destroy();
    for (const path of paths) pyodide.FS.unlink(path);
  }
}

addEventListener("message", async ({ data }) => {
  try {
    postMessage({ id: data.id, result: JSON.parse(await run(data.name, data.given)) });
  } catch (error) {
    const lines = String(error.message ?? error).trim().split("\n");
    postMessage({ id: data.id, result: { error: lines[lines.length - 1] } });
  }
});
